"""Sockets that wait for a slot, first in, first out, and the bell that wakes them when one may have become free."""

import asyncio

from antiphon.realtime.admission import Admission, QueuePlace


class WaitingLine:
    """The queue before `Admission`. Whoever joins either takes a slot or leaves, on every path."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._bells: dict[str, asyncio.Event] = {}

    def join(self, name: str) -> asyncio.Event:
        """Take the last place; gives the bell, to be waited for between one try and the next.

        Raises:
            RealtimeError: `resource_exhausted`, the queue itself is full.
        """
        self._admission.enqueue(name)
        self._bells[name] = asyncio.Event()
        return self._bells[name]

    def place(self, name: str) -> QueuePlace:
        return self._admission.place(name)

    def try_take(self, name: str, now_s: float) -> bool:
        """Whether *name* had its turn, and has the slot now."""
        self._bells[name].clear()
        if not self._admission.is_next(name):
            return False
        self._admission.take(name, now_s)
        del self._bells[name]
        return True

    def leave(self, name: str) -> None:
        """Give up the place. Whoever has none: nothing."""
        if self._bells.pop(name, None) is not None:
            self._admission.leave(name)
            self.ring()

    def ring(self) -> None:
        """A slot is free, the line is shorter, or the server shuts down: everybody looks again."""
        for bell in self._bells.values():
            bell.set()
