"""Whether the server takes requests, and how many it is answering."""

import asyncio
from collections.abc import Awaitable, Callable

Drain = Callable[[float], Awaitable[None]]


class Lifecycle:
    """Open, then draining, once. Lives on one event loop."""

    def __init__(self) -> None:
        self.is_draining = False
        self.num_in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._drains: list[Drain] = []

    def drains_too(self, drain: Drain) -> None:
        """Also wait for what *drain* waits for, at most the seconds that it is given."""
        self._drains.append(drain)

    def enter(self) -> None:
        """A request begins."""
        self.num_in_flight += 1
        self._idle.clear()

    def leave(self) -> None:
        """A request has ended."""
        self.num_in_flight -= 1
        if self.num_in_flight == 0:
            self._idle.set()

    async def drain(self, timeout_s: float) -> bool:
        """Take nothing more and wait for what is in flight; False if some of it is still there."""
        self.is_draining = True
        idle = asyncio.wait_for(self._idle.wait(), timeout_s)
        results = await asyncio.gather(idle, *(drain(timeout_s) for drain in self._drains), return_exceptions=True)
        failed = [result for result in results if isinstance(result, BaseException)]
        broken = [result for result in failed if not isinstance(result, asyncio.TimeoutError)]
        if broken:
            raise broken[0]
        return not failed
