"""Plays a file to a duplex session and keeps what comes back."""
