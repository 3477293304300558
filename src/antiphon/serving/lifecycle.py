"""Whether the server takes requests, and how many it is answering."""

import asyncio


class Lifecycle:
    """Open, then draining, once. Lives on one event loop."""

    def __init__(self) -> None:
        self.is_draining = False
        self.num_in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()

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
        try:
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        except asyncio.TimeoutError:
            return False
        return True
