"""One reader's view of a session: bounded, and with an end that says whether it was expected."""

import asyncio
from collections import deque
from typing import Generic, TypeVar

from antiphon.client.errors import DuplexSessionClosedError

T = TypeVar("T")
MAX_WAITING = 1024


class Feed(Generic[T]):
    """An asynchronous iterator over what is put into it from its making on, for one reader.

    A reader that is too slow loses the oldest items, never the newest; `num_dropped` counts them.
    """

    def __init__(self, max_waiting: int = MAX_WAITING) -> None:
        self._items: deque[T] = deque(maxlen=max_waiting)
        self._has_news = asyncio.Event()
        self._error: Exception | None = None
        self._is_ended = False
        self.num_dropped = 0

    def put(self, item: T) -> None:
        if self._is_ended:
            return
        self.num_dropped += len(self._items) == self._items.maxlen
        self._items.append(item)
        self._has_news.set()

    def end(self, error: Exception | None = None) -> None:
        """No more comes; *error* is raised to the reader behind the last item."""
        if not self._is_ended:
            self._is_ended = True
            self._error = error
            self._has_news.set()

    def __aiter__(self) -> "Feed[T]":
        return self

    async def __anext__(self) -> T:
        while not self._items:
            if self._is_ended:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            self._has_news.clear()
            await self._has_news.wait()
        return self._items.popleft()


def closed_error(reason: str | None) -> DuplexSessionClosedError | None:
    """What readers get at the end of a session; None for an end that was asked for."""
    return None if reason is None else DuplexSessionClosedError(reason)
