"""Replay of recorded reference vectors through our own code."""
