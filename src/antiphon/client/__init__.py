"""Clients of the server. They know only the wire."""
