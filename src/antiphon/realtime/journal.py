"""What was sent and may have to be sent again: sequenced events, until acknowledged, too old, or too many."""

from collections import deque
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    seq: int
    payload: bytes
    written_at_s: float


class Journal:
    """Events of one session by sequence number. Once overflown it stays useless: nothing is sequenced any more."""

    def __init__(self, *, max_bytes: int, ttl_s: float) -> None:
        self._max_bytes = max_bytes
        self._ttl_s = ttl_s
        self._entries: deque[Entry] = deque()
        self._num_bytes = 0
        self.head = 0  # the last number given out
        self.boundary = 0  # the highest number that can no longer be replayed
        self.has_overflown = False

    @property
    def num_bytes(self) -> int:
        return self._num_bytes

    def add(self, payload: bytes, now_s: float) -> bool:
        """Keep the event with number `head + 1`. False: it does not fit, and the journal has overflown."""
        self.expire(now_s)
        if self._num_bytes + len(payload) > self._max_bytes:
            self.has_overflown = True
            self.boundary = self.head
            self._entries.clear()
            self._num_bytes = 0
            return False
        self.head += 1
        self._entries.append(Entry(self.head, payload, now_s))
        self._num_bytes += len(payload)
        return True

    def acknowledge(self, seq: int) -> bool:
        """Forget up to *seq*. False: that number was never given out."""
        if seq > self.head:
            return False
        while self._entries and self._entries[0].seq <= seq:
            self._drop_oldest()
        self.boundary = max(self.boundary, seq)
        return True

    def expire(self, now_s: float) -> None:
        while self._entries and now_s >= self._entries[0].written_at_s + self._ttl_s:
            self._drop_oldest()

    def can_replay(self, after_seq: int) -> bool:
        return not self.has_overflown and after_seq >= self.boundary

    def after(self, seq: int) -> list[bytes]:
        """Everything kept with a number above *seq*, in order, as it was sent."""
        return [entry.payload for entry in self._entries if entry.seq > seq]

    def _drop_oldest(self) -> None:
        entry = self._entries.popleft()
        self._num_bytes -= len(entry.payload)
        self.boundary = entry.seq
