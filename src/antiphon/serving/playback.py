"""How a player that starts at once would have fared with a stream of speech."""


class Playback:
    """Counts in seconds since the first chunk came. `worst_gap_s`: the longest the player had nothing to play."""

    def __init__(self) -> None:
        self._start_s: float | None = None
        self._played_s = 0.0  # speech that has come so far
        self.worst_gap_s = 0.0

    def arrive(self, now_s: float, duration_s: float) -> None:
        """A chunk of *duration_s* has come."""
        if self._start_s is None:
            self._start_s = now_s
        self.worst_gap_s = max(self.worst_gap_s, now_s - self._start_s - self._played_s)
        self._played_s += duration_s
