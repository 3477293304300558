"""Runs a recorded session against a server again and finds what differs."""
