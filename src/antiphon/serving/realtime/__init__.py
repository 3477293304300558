"""The WebSocket edge of duplex sessions: sockets, tasks and timers around `antiphon.realtime`, which has none."""
