"""Server-sent events: cuts a byte stream, split anywhere, into the payloads of its `data:` lines."""

END_MARK = b"[DONE]"


class SseDecoder:
    """Holds what has come of the event under way. Field names other than `data` and comments are skipped."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._searched_bytes = 0  # of the pending ones: a long audio event comes in many pieces
        self._lines: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """Take the next bytes and return the payloads of the events that they complete."""
        self._pending += piece
        payloads: list[bytes] = []
        while (cut := self._pending.find(b"\n", self._searched_bytes)) >= 0:
            line = bytes(self._pending[:cut]).removesuffix(b"\r")
            del self._pending[: cut + 1]
            self._searched_bytes = 0
            if line.startswith(b"data:"):
                self._lines.append(line[5:].removeprefix(b" "))
            elif not line and self._lines:
                payloads.append(b"\n".join(self._lines))
                self._lines.clear()
        self._searched_bytes = len(self._pending)
        return payloads
