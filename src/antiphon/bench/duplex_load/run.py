"""One run: ready check, warm-up, then each number of sessions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import aiohttp
import numpy as np

from antiphon.bench.duplex_load.clips import Clip, Clips
from antiphon.bench.duplex_load.result import DuplexResult
from antiphon.bench.duplex_load.session import run_session
from antiphon.bench.duplex_load.settings import DuplexSettings
from antiphon.bench.duplex_load.summary import summarise_duplex
from antiphon.bench.duplex_load.timeline import SessionRecord
from antiphon.bench.http_client import open_session
from antiphon.bench.load import Clock, arrival_times_s, run_load
from antiphon.bench.server_facts import (
    ServerError,
    counted_between,
    find_model,
    read_counters,
    read_facts,
    wait_until_ready,
)
from antiphon.bench.settings import Level, Target


@dataclass(frozen=True, kw_only=True)
class DuplexProgress:
    """Whom to tell: a part of the run begins (its name and number of sessions), a session has ended, a level has."""

    begin: Callable[[str, int], None]
    advance: Callable[[SessionRecord], None]
    report: Callable[[DuplexResult], None]


@dataclass(frozen=True, kw_only=True)
class DuplexRun:
    model: str
    results: Sequence[DuplexResult]


async def run_duplex_benchmark(
    clips: Clips,
    target: Target,
    settings: DuplexSettings,
    progress: DuplexProgress,
    *,
    model: str,
    clock: Clock = perf_counter,
) -> DuplexRun:
    """Measure every level of *settings*. *model* empty: the first that the server lists.

    Raises:
        ServerError: the server is not ready, or fails every warm-up session.
        ConfigError: no model is named and the server lists none.
    """
    async with open_session(target, settings.timeout_s) as http:
        await wait_until_ready(http, target.base_url, timeout_s=settings.ready_timeout_s, clock=clock)
        name = model or await find_model(http, target.base_url)
        runner = _Runner(http, target, settings, name, progress, clock)
        if settings.num_warmups:
            await runner.warm_up(clips(settings.num_warmups, 0))
        results = []
        for place, level in enumerate(settings.levels, start=1):
            results.append(await runner.measure(level, clips(level.num_prompts, place), place))
            progress.report(results[-1])
    return DuplexRun(model=name, results=results)


@dataclass(frozen=True)
class _Runner:
    http: aiohttp.ClientSession
    target: Target
    settings: DuplexSettings
    model: str
    progress: DuplexProgress
    clock: Clock

    async def warm_up(self, clips: Sequence[Clip]) -> None:
        self.progress.begin("warm-up", len(clips))
        records = await self._run(clips, [0.0] * len(clips), len(clips))
        failures = [record.error for record in records if record.error]
        if len(failures) == len(records):
            raise ServerError(f"every warm-up session failed: {failures[0]}")

    async def measure(self, level: Level, clips: Sequence[Clip], place: int) -> DuplexResult:
        settings, base_url = self.settings, self.target.base_url
        facts = await read_facts(self.http, base_url)
        before = await read_counters(self.http, base_url)
        at_once = level.max_concurrency or len(clips)
        due_s = arrival_times_s(
            len(clips),
            rate=settings.request_rate,
            burstiness=settings.burstiness,
            generator=np.random.default_rng((settings.seed, place)),
        )
        # Only the first of each worker is held back: the later ones begin when an earlier one has ended.
        due_s = [at_s + settings.stagger_s * min(i, at_once) / at_once for i, at_s in enumerate(due_s)]
        self.progress.begin(f"{at_once} sessions", len(clips))
        begin_s = self.clock()
        records = await self._run(clips, due_s, level.max_concurrency)
        duration_s = self.clock() - begin_s
        after = await read_counters(self.http, base_url)
        summary = summarise_duplex(
            records,
            duration_s=duration_s,
            percents=settings.percentiles,
            continuity_threshold_s=settings.continuity_threshold_s,
        )
        return DuplexResult(
            level=replace(level, num_prompts=len(clips)),
            summary=summary,
            records=records,
            server={**facts, "counters": counted_between(before, after)},
        )

    async def _run(
        self, clips: Sequence[Clip], due_s: Sequence[float], max_concurrency: int | None
    ) -> list[SessionRecord]:
        async def run_one(clip: Clip, _due_s: float) -> SessionRecord:
            record = await run_session(self.http, self.target, clip, self.settings, self.model, self.clock)
            self.progress.advance(record)
            return record

        return await run_load(clips, due_s, run_one, max_concurrency=max_concurrency, clock=self.clock)
