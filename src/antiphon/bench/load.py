"""When requests are sent: arrivals in time (open loop) and a limit on how many are under way (closed loop)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import TypeVar

import numpy as np

Request = TypeVar("Request")
Result = TypeVar("Result")
Clock = Callable[[], float]  # seconds on a monotonic clock
Sleep = Callable[[float], Awaitable[None]]


def arrival_times_s(count: int, *, rate: float, burstiness: float, generator: np.random.Generator) -> list[float]:
    """When each of *count* requests is due, in seconds from the start.

    Args:
        rate: requests per second; inf: all at once.
        burstiness: shape of the gamma distribution of the gaps. 1 is a Poisson process, less is burstier, more evener.
    """
    if rate == inf:
        return [0.0] * count
    gaps = generator.gamma(burstiness, 1.0 / (rate * burstiness), size=count)
    return [float(at_s) for at_s in np.cumsum(gaps) - gaps[0]]


async def run_load(
    requests: Sequence[Request],
    due_s: Sequence[float],
    send: Callable[[Request, float], Awaitable[Result]],
    *,
    max_concurrency: int | None,
    clock: Clock,
    sleep: Sleep = asyncio.sleep,
) -> list[Result]:
    """Send every request once, no earlier than it is due and never more than *max_concurrency* at a time.

    Args:
        due_s: for each request, seconds from now, ascending.
        send: given a request and the moment it was due on *clock*; its result must not depend on others.

    Returns:
        One result per request, in the order of *requests*.
    """
    begin_s = clock()
    waiting = iter(enumerate(requests))
    results: dict[int, Result] = {}

    async def work() -> None:
        for place, request in waiting:
            moment_s = begin_s + due_s[place]
            if (wait_s := moment_s - clock()) > 0:
                await sleep(wait_s)
            results[place] = await send(request, moment_s)

    num_workers = min(len(requests), max_concurrency or len(requests))
    workers = [asyncio.ensure_future(work()) for _ in range(num_workers)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return [results[place] for place in range(len(requests))]
