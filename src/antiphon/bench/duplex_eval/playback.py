"""A listener without ears: plays what arrives, one response after another, and tells how far it has come."""

from collections import OrderedDict


class Playback:
    """Times are seconds on any one clock. With *is_instant* everything is heard as it arrives."""

    def __init__(self, *, is_instant: bool) -> None:
        self._is_instant = is_instant
        self._received_s: OrderedDict[str, float] = OrderedDict()
        self._played_s: dict[str, float] = {}
        self._told_ms: dict[str, int] = {}
        self._last_s: float | None = None

    def receive(self, response_id: str, duration_s: float, now_s: float) -> None:
        """Audio of *duration_s* has arrived."""
        self.advance(now_s)
        self._received_s[response_id] = self._received_s.get(response_id, 0.0) + duration_s
        if self._is_instant:
            self._played_s[response_id] = self._received_s[response_id]

    def advance(self, now_s: float) -> None:
        """Play until *now_s*."""
        left_s = 0.0 if self._last_s is None else max(0.0, now_s - self._last_s)
        self._last_s = now_s
        for response_id, received_s in self._received_s.items():
            played_s = self._played_s.get(response_id, 0.0)
            step_s = min(left_s, received_s - played_s)
            self._played_s[response_id] = played_s + step_s
            left_s -= step_s

    def news(self, now_s: float) -> list[tuple[str, int]]:
        """Responses of which more was played since the last call, and how many milliseconds of each in all."""
        self.advance(now_s)
        found = []
        for response_id, played_s in self._played_s.items():
            played_ms = round(1000 * played_s)
            if played_ms > self._told_ms.get(response_id, 0):
                self._told_ms[response_id] = played_ms
                found.append((response_id, played_ms))
        return found
