"""Scores of sound: whether it flows, and what its samples show."""
