"""How many sessions there may be, and who waits for a place (specification section 6.3)."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from antiphon.realtime.limits import Limits
from antiphon.wire.realtime.errors import RealtimeError

_FIRST_GUESS_S = 60.0  # of a session's length, until some have ended
_MEMORY = 0.9  # of the running mean


@dataclass(frozen=True)
class QueuePlace:
    """Where somebody stands: 1 is next."""

    position: int
    queue_length: int
    expected_wait_s: float


class Admission:
    """Slots, and a first-in-first-out queue for them. A slot is taken before a session opens, given back once.

    Args:
        has_room: whether the machine would keep one session more in time.
    """

    def __init__(self, limits: Limits, has_room: Callable[[], bool] = lambda: True) -> None:
        self._limits, self._has_room = limits, has_room
        self._slots: dict[str, float] = {}
        self._queue: deque[str] = deque()
        self._mean_s = _FIRST_GUESS_S

    @property
    def num_taken(self) -> int:
        return len(self._slots)

    @property
    def num_waiting(self) -> int:
        return len(self._queue)

    def take(self, name: str, now_s: float) -> None:
        """Take a slot for *name*; who waits in the queue comes first.

        Raises:
            RealtimeError: `resource_exhausted`.
        """
        was_next = bool(self._queue) and self._queue[0] == name
        ahead = 0 if was_next else len(self._queue)
        if len(self._slots) + ahead >= self._limits.max_sessions:
            raise RealtimeError(
                "resource_exhausted", f"all {self._limits.max_sessions} sessions are taken; try again later"
            )
        if not was_next and not self._has_room():
            raise RealtimeError(
                "resource_exhausted", "the machine could not keep one session more in time; try again later"
            )
        if name in self._queue:
            self._queue.remove(name)
        self._slots[name] = now_s

    def give_back(self, name: str, now_s: float) -> None:
        """*name*'s session is over. Again: nothing."""
        began = self._slots.pop(name, None)
        if began is not None:
            self._mean_s = _MEMORY * self._mean_s + (1 - _MEMORY) * (now_s - began)

    def enqueue(self, name: str) -> QueuePlace:
        """Raises RealtimeError `resource_exhausted` when the queue itself is full."""
        if len(self._queue) >= self._limits.max_queue:
            raise RealtimeError("resource_exhausted", "all sessions are taken and the queue is full")
        self._queue.append(name)
        return self.place(name)

    def place(self, name: str) -> QueuePlace:
        position = self._queue.index(name) + 1
        rounds = -(-position // self._limits.max_sessions)
        return QueuePlace(position, len(self._queue), rounds * self._mean_s)

    def is_next(self, name: str) -> bool:
        has_slot = len(self._slots) < self._limits.max_sessions
        return bool(self._queue) and self._queue[0] == name and has_slot and self._has_room()

    def leave(self, name: str) -> None:
        """Give up a place in the queue, wherever it is."""
        if name in self._queue:
            self._queue.remove(name)
