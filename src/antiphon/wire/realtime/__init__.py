"""The events of the Realtime WebSocket as types: one class for each event, one union for each direction."""
