"""One file through one session: the input is sent, the answer awaited and, if asked for, interrupted."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from antiphon.client.collector import EventCollector
from antiphon.client.errors import DuplexClientError, DuplexSessionClosedError
from antiphon.client.file_run.input import SessionInput
from antiphon.client.file_run.listener import Listener
from antiphon.client.session import DuplexSession

_SETTLE_S = 0.5  # an answer that has not begun so long after its input wants more of it
_TICK_S = 0.05
_SILENCE_MS = 200


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """What is done.

    Attributes:
        is_realtime: chunks go out when a microphone would have them; else at once.
        max_trailing_silence_ms: silence sent behind the input while the model does not answer.
        timeout_s: for the answer, from the end of the input on.
        barge_in_at_s: interrupt once so much of the answer was heard.
        interruption: what is said then; None: the answer is only stopped.
    """

    source: SessionInput
    chunk_ms: int = 200
    is_realtime: bool = True
    max_trailing_silence_ms: int = 5000
    timeout_s: float = 60.0
    barge_in_at_s: float | None = None
    interruption: SessionInput | None = None


@dataclass(kw_only=True)
class RunRecord:
    """What happened. Moments are seconds on the collector's clock."""

    collector: EventCollector
    began_s: float
    committed_s: float | None = None
    barged_in_s: float | None = None
    heard_before_barge_in_s: float | None = None
    num_begun_at_barge_in: int = 0
    num_frames_sent: int = 0
    trailing_silence_ms: int = 0
    is_timed_out: bool = False
    close_error: str | None = None
    heard_ms: dict[str, float] = field(default_factory=dict)
    underruns_s: float = 0.0


Report = Callable[[Listener, float], None]  # who listens, and the seconds of input that are sent


async def run_file(session: DuplexSession, plan: RunPlan, report: Report) -> RunRecord:
    """Run *plan* on *session*, which is open; *report* is told often."""
    collector = EventCollector(asyncio.get_running_loop().time)
    listener = Listener(session, is_realtime=plan.is_realtime)
    record = RunRecord(collector=collector, began_s=asyncio.get_running_loop().time())
    followers = [asyncio.create_task(work) for work in (collector.consume(session), listener.follow())]
    acknowledging = asyncio.create_task(listener.acknowledge())
    await asyncio.sleep(0)  # both followers listen from here on
    try:
        await _converse(session, plan, record, listener, report)
        await listener.acknowledge_once()
    except DuplexSessionClosedError as error:
        record.close_error = error.reason
    finally:
        acknowledging.cancel()
        record.heard_ms, record.underruns_s = dict(listener.heard_ms), listener.speaker.underruns_s
        await asyncio.gather(acknowledging, return_exceptions=True)
    with suppress(DuplexClientError):
        await session.close()
    await asyncio.gather(*followers, return_exceptions=True)
    return record


async def _converse(
    session: DuplexSession, plan: RunPlan, record: RunRecord, listener: Listener, report: Report
) -> None:
    clock = asyncio.get_running_loop().time
    interrupting = None
    if plan.barge_in_at_s is not None:
        interrupting = asyncio.create_task(_interrupt(session, plan, record, listener))
    try:
        telling = asyncio.create_task(_tell(plan, listener, report, record.began_s))
        try:
            record.num_frames_sent = await _send(session, plan, plan.source)
            await session.commit()
            record.committed_s = clock()
            num_wanted = listener.num_done + 1
            await _await_answer(session, plan, record, listener, num_wanted=num_wanted, until=interrupting)
            if record.barged_in_s is not None and plan.interruption is not None:
                await _await_answer(session, plan, record, listener, num_wanted=record.num_begun_at_barge_in + 1)
        finally:
            telling.cancel()
    finally:
        if interrupting is not None:
            interrupting.cancel()
            await asyncio.gather(interrupting, return_exceptions=True)


async def _send(session: DuplexSession, plan: RunPlan, source: SessionInput) -> int:
    return await session.stream_pcm(
        source.pcm,
        chunk_ms=plan.chunk_ms,
        realtime=plan.is_realtime,
        video_frames=source.frames or None,
        stacked_video_frames=source.composites or None,
    )


async def _interrupt(session: DuplexSession, plan: RunPlan, record: RunRecord, listener: Listener) -> None:
    assert plan.barge_in_at_s is not None
    while listener.heard_s() < plan.barge_in_at_s:
        await asyncio.sleep(_TICK_S)
    await listener.acknowledge_once()
    record.heard_before_barge_in_s = listener.heard_s()
    record.num_begun_at_barge_in = listener.num_begun
    record.barged_in_s = asyncio.get_running_loop().time()
    await session.barge_in()
    if plan.interruption is not None:
        await _send(session, plan, plan.interruption)
        await session.commit()


async def _await_answer(
    session: DuplexSession,
    plan: RunPlan,
    record: RunRecord,
    listener: Listener,
    *,
    num_wanted: int,
    until: "asyncio.Task[None] | None" = None,
) -> None:
    """Until *num_wanted* responses are over and played, or *until* is done, or it takes too long.

    A model that waits for the user to go on is given silence, as a microphone would.
    """
    clock = asyncio.get_running_loop().time
    begin_s = quiet_s = clock()
    while not (until is not None and until.done()):
        is_running = listener.is_speaking or (until is not None and record.barged_in_s is not None)
        if listener.num_done >= num_wanted and not is_running:
            break
        if clock() - begin_s > plan.timeout_s:
            record.is_timed_out = True
            break
        if is_running:
            quiet_s = clock()
        elif clock() - quiet_s >= _SETTLE_S:
            if record.trailing_silence_ms >= plan.max_trailing_silence_ms:
                break
            await session.append_audio(bytes(32 * _SILENCE_MS), is_speech=False)
            record.trailing_silence_ms += _SILENCE_MS
            await asyncio.sleep(_SILENCE_MS / 1000)
            continue
        await asyncio.sleep(_TICK_S)
    if until is not None and until.done():
        until.result()


async def _tell(plan: RunPlan, listener: Listener, report: Report, began_s: float) -> None:
    clock = asyncio.get_running_loop().time
    while True:
        sent_s = min(clock() - began_s, plan.source.duration_s) if plan.is_realtime else plan.source.duration_s
        report(listener, sent_s)
        await asyncio.sleep(4 * _TICK_S)
