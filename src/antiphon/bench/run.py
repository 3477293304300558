"""One benchmark run: ready check, warm-up, then each level, with progress on the way."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import aiohttp
import numpy as np

from antiphon.bench.bench_request import BenchRequest, BodyOptions, render_body
from antiphon.bench.http_client import open_session, send
from antiphon.bench.load import Clock, arrival_times_s, run_load
from antiphon.bench.recount import CountTokens, with_counts
from antiphon.bench.result_file import LevelResult
from antiphon.bench.server_facts import (
    ServerError,
    counted_between,
    find_model,
    read_counters,
    read_facts,
    wait_until_ready,
)
from antiphon.bench.settings import Level, RunSettings, Target
from antiphon.bench.summary import summarise
from antiphon.bench.timeline import RequestRecord

Requests = Callable[[int, int], Sequence[BenchRequest]]


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Whom to tell: a part of the run begins (its name and number of requests), one of its requests has ended."""

    begin: Callable[[str, int], None]
    advance: Callable[[RequestRecord], None]
    report: Callable[[LevelResult], None]


@dataclass(frozen=True, kw_only=True)
class Run:
    """Everything measured, and the model that was asked."""

    model: str
    results: Sequence[LevelResult]


async def run_benchmark(
    make_requests: Requests,
    target: Target,
    body: BodyOptions,
    settings: RunSettings,
    progress: Progress,
    *,
    count_tokens: CountTokens | None = None,
    clock: Clock = perf_counter,
) -> Run:
    """Measure every level of *settings*.

    Args:
        make_requests: given how many and a place in the run (0 is the warm-up), the requests: never the same ones for
            two levels, or a prefix cache would make the later level look better.
        count_tokens: for servers that tell no usage.

    Raises:
        ServerError: the server is not ready, or fails every warm-up request.
        ConfigError: no model is named and the server lists none.
    """
    async with open_session(target, settings.timeout_s) as session:
        await wait_until_ready(session, target.base_url, timeout_s=settings.ready_timeout_s, clock=clock)
        model = body.model or await find_model(session, target.base_url)
        sender = _Sender(session, target, replace(body, model=model), settings, count_tokens, clock)
        if settings.num_warmups:
            await _warm_up(sender, make_requests(settings.num_warmups, 0), progress)
        results: list[LevelResult] = []
        for place, level in enumerate(settings.levels, start=1):
            results.append(await _measure(sender, level, make_requests(level.num_prompts, place), progress, place))
            progress.report(results[-1])
    return Run(model=model, results=results)


@dataclass(frozen=True)
class _Sender:
    session: aiohttp.ClientSession
    target: Target
    body: BodyOptions
    settings: RunSettings
    count_tokens: CountTokens | None
    clock: Clock

    async def send(self, request: BenchRequest, due_s: float) -> RequestRecord:
        record = await send(
            self.session,
            self.target,
            self.settings.backend,
            render_body(request, self.body),
            prompt_len_tokens=request.prompt_len_tokens,
            due_s=due_s,
            clock=self.clock,
        )
        if self.count_tokens is None:
            return record
        return replace(record, answer=with_counts(record.answer, request.messages, self.count_tokens))


async def _warm_up(sender: _Sender, requests: Sequence[BenchRequest], progress: Progress) -> None:
    progress.begin("warm-up", len(requests))
    most = max((level.max_concurrency or len(requests) for level in sender.settings.levels), default=1)
    records = await _send_all(sender, requests, [0.0] * len(requests), most, progress)
    failures = [record.answer.error for record in records if record.answer.error]
    if len(failures) == len(records):
        raise ServerError(f"every warm-up request failed: {failures[0]}")


async def _measure(
    sender: _Sender, level: Level, requests: Sequence[BenchRequest], progress: Progress, place: int
) -> LevelResult:
    settings, base_url = sender.settings, sender.target.base_url
    facts = await read_facts(sender.session, base_url)
    before = await read_counters(sender.session, base_url)
    due_s = arrival_times_s(
        len(requests),
        rate=settings.request_rate,
        burstiness=settings.burstiness,
        generator=np.random.default_rng((settings.seed, place)),
    )
    name = "unlimited" if level.max_concurrency is None else f"concurrency {level.max_concurrency}"
    progress.begin(name, len(requests))
    begin_s = sender.clock()
    records = await _send_all(sender, requests, due_s, level.max_concurrency, progress)
    duration_s = sender.clock() - begin_s
    after = await read_counters(sender.session, base_url)
    return LevelResult(
        level=Level(max_concurrency=level.max_concurrency, num_prompts=len(requests)),
        summary=summarise(
            records,
            duration_s=duration_s,
            percents=settings.percentiles,
            goodput_s=settings.goodput_s,
            continuity_threshold_s=settings.continuity_threshold_s,
        ),
        records=records,
        server={**facts, "counters": counted_between(before, after)},
    )


async def _send_all(
    sender: _Sender,
    requests: Sequence[BenchRequest],
    due_s: Sequence[float],
    max_concurrency: int | None,
    progress: Progress,
) -> list[RequestRecord]:
    async def send_one(request: BenchRequest, moment_s: float) -> RequestRecord:
        record = await sender.send(request, moment_s)
        progress.advance(record)
        return record

    return await run_load(requests, due_s, send_one, max_concurrency=max_concurrency, clock=sender.clock)
