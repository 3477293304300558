"""What clients send and get over HTTP, as types."""
