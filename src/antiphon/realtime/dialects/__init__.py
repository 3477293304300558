"""The dialects of the Realtime protocol: each translates at the edge of the one session."""
