"""Arrivals and the limit on requests under way, on a clock moved by hand."""

import asyncio
from math import inf

import numpy as np
import pytest

from antiphon.bench.load import arrival_times_s, run_load


class HandClock:
    """Time passes only by sleeping: the earliest sleeper wakes when nobody else can run."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def __call__(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.now_s + seconds, len(self._sleepers), wake))
        await wake

    async def drive(self) -> None:
        while True:
            for _ in range(20):
                await asyncio.sleep(0)
            if self._sleepers:
                self._sleepers.sort(key=lambda item: item[:2])
                self.now_s, _, wake = self._sleepers.pop(0)
                wake.set_result(None)


def play(durations_s: list[float], due_s: list[float], limit: int | None) -> list[tuple[float, float, float]]:
    """(due, start, end) of each request of a run."""

    async def main() -> list[tuple[float, float, float]]:
        clock = HandClock()

        async def send(duration_s: float, moment_s: float) -> tuple[float, float, float]:
            start_s = clock()
            await clock.sleep(duration_s)
            return moment_s, start_s, clock()

        driver = asyncio.ensure_future(clock.drive())
        try:
            return await run_load(durations_s, due_s, send, max_concurrency=limit, clock=clock, sleep=clock.sleep)
        finally:
            driver.cancel()

    return asyncio.run(main())


def test_a_closed_loop_sends_the_next_when_one_has_ended() -> None:
    found = play([2.0, 3.0, 1.0, 1.0], [0.0] * 4, 2)
    assert found == [(0, 0, 2), (0, 0, 3), (0, 2, 3), (0, 3, 4)]


def test_an_open_loop_sends_when_requests_are_due() -> None:
    assert play([5.0, 5.0, 5.0], [0.0, 0.5, 0.75], None) == [(0, 0, 5), (0.5, 0.5, 5.5), (0.75, 0.75, 5.75)]


def test_arrivals_that_outrun_the_limit_start_late_and_keep_their_due_time() -> None:
    assert play([2.0, 2.0], [0.0, 1.0], 1) == [(0, 0, 2), (1, 2, 4)]


def test_an_infinite_rate_is_due_at_once() -> None:
    assert arrival_times_s(3, rate=inf, burstiness=1.0, generator=np.random.default_rng(0)) == [0.0] * 3


@pytest.mark.parametrize(("burstiness", "spread"), [(0.25, 2.0), (1.0, 1.0), (16.0, 0.25)])
def test_gaps_have_the_rates_mean_and_the_shapes_spread(burstiness: float, spread: float) -> None:
    times = arrival_times_s(20_000, rate=4.0, burstiness=burstiness, generator=np.random.default_rng(1))
    gaps = np.diff(times)
    assert times[0] == 0.0
    assert gaps.mean() == pytest.approx(0.25, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(spread, rel=0.05)


def test_a_cancelled_run_leaves_no_worker_behind() -> None:
    async def main() -> int:
        async def send(request: int, moment_s: float) -> None:
            await asyncio.sleep(60)

        run = asyncio.ensure_future(run_load([1, 2], [0.0, 0.0], send, max_concurrency=2, clock=lambda: 0.0))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        return len(asyncio.all_tasks())

    assert asyncio.run(main()) == 1
