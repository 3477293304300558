"""Asks a server every item that has no output yet, and keeps what it answers."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import aiohttp

from antiphon.bench.bench_request import BenchRequest, BodyOptions, render_body
from antiphon.bench.http_client import open_session, send
from antiphon.bench.load import Clock, run_load
from antiphon.bench.server_facts import counted_between, find_model, read_counters, read_facts, wait_until_ready
from antiphon.bench.settings import Target
from antiphon.bench.timeline import RequestRecord
from antiphon.core.errors import MediaError
from antiphon.evals.items import EvalItem, Output
from antiphon.evals.outputs.folder import OutputWriter
from antiphon.evals.speech.sound import join_arrivals


@dataclass(frozen=True, kw_only=True)
class AskSettings:
    """How a server is asked."""

    target: Target
    body: BodyOptions
    max_concurrency: int = 1
    timeout_s: float = 900.0
    ready_timeout_s: float = 60.0


@dataclass(frozen=True)
class Asked:
    """What became of one item."""

    output: Output
    was_kept: bool  # from an earlier run


async def ask(
    items: Sequence[EvalItem],
    writer: OutputWriter,
    settings: AskSettings,
    tell: Callable[[Asked], None],
    *,
    clock: Clock = perf_counter,
) -> dict[str, object]:
    """Fill *writer*'s folder and return what the server says of itself, with the counters that rose.

    An item that fails is an output with an error and is asked again by the next run.

    Raises:
        ServerError: the server is not there.
        ConfigError: no model is named and the server lists none.
    """
    waiting = [item for item in items if item.truth.item_id not in writer.finished]
    for item in items:
        if kept := writer.finished.get(item.truth.item_id):
            tell(Asked(kept, was_kept=True))
    if not waiting:
        return {}
    base_url = settings.target.base_url
    async with open_session(settings.target, settings.timeout_s) as session:
        await wait_until_ready(session, base_url, timeout_s=settings.ready_timeout_s, clock=clock)
        model = settings.body.model or await find_model(session, base_url)
        facts = await read_facts(session, base_url)
        before = await read_counters(session, base_url)
        asker = _Asker(session, settings, model, writer, clock)

        async def ask_one(item: EvalItem, due_s: float) -> None:
            tell(Asked(await asker.ask(item, due_s), was_kept=False))

        due_s = [0.0] * len(waiting)
        await run_load(waiting, due_s, ask_one, max_concurrency=settings.max_concurrency, clock=clock)
        after = await read_counters(session, base_url)
    return {"model": model, **facts, "counters": counted_between(before, after)}


@dataclass(frozen=True)
class _Asker:
    session: aiohttp.ClientSession
    settings: AskSettings
    model: str
    writer: OutputWriter
    clock: Clock

    async def ask(self, item: EvalItem, due_s: float) -> Output:
        try:
            request = await asyncio.to_thread(item.make_request)
            record = await self._send(request, due_s)
            return await asyncio.to_thread(self._keep, item, record)
        except MediaError as error:
            output = Output(truth=item.truth, error=str(error))
            await asyncio.to_thread(self.writer.add, output)
            return output

    async def _send(self, request: BenchRequest, due_s: float) -> RequestRecord:
        options = self.settings.body
        body = {**render_body(request, options), "model": self.model}
        return await send(
            self.session,
            self.settings.target,
            options.backend,
            body,
            prompt_len_tokens=request.prompt_len_tokens,
            due_s=due_s,
            clock=self.clock,
            keeps_audio=True,
        )

    def _keep(self, item: EvalItem, record: RequestRecord) -> Output:
        answer = record.answer
        sound = join_arrivals(answer.audios)
        output = Output(
            truth=item.truth,
            text=answer.text,
            sound=None if sound is None else self.writer.save_sound(item.truth.item_id, sound),
            arrivals=tuple((arrival.at_s, arrival.num_frames) for arrival in answer.audios if arrival.num_frames),
            e2e_s=round(answer.e2e_s, 6),
            error=answer.error or "",
        )
        self.writer.add(output)
        return output
