"""A request's events for asyncio: taken without blocking the loop."""

import asyncio
from collections.abc import AsyncIterator

from antiphon.pipeline.events import Aborted, Failed, Finished, RequestEvent
from antiphon.pipeline.orchestrator import RequestHandle


async def events_of(handle: RequestHandle) -> AsyncIterator[RequestEvent]:
    """Yield the events of *handle* up to its end. Leaving early (also by cancellation) aborts the request."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()

    def wake() -> None:
        try:
            loop.call_soon_threadsafe(ready.set)
        except RuntimeError:  # the loop is closed: nobody will read on
            handle.abort()

    handle.listen(wake)
    try:
        while True:
            await ready.wait()
            ready.clear()
            while (event := handle.take(0)) is not None:
                yield event
                if isinstance(event, (Finished, Failed, Aborted)):
                    return
    finally:
        handle.abort()
