"""Thousands of short sessions that end at every point: nothing stays behind. Cases C64, C94, C102."""

import asyncio
import gc
import os
import random
import threading
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from realtime_driving import float32, loud, quiet
from realtime_server import settings_of
from realtime_wire import Wire

from antiphon.realtime.limits import Limits
from antiphon.realtime.script import Answer, Piece, Script, tone
from antiphon.serving.realtime.gate import Gate
from antiphon.serving.realtime.hub import Hub
from antiphon.serving.realtime.scripted_app import scripted_hub

NUM_SESSIONS = 5000
NUM_WARM = 500
NUM_AT_ONCE = 64
SCRIPT = Script(
    answers=(Answer(pieces=tuple(Piece(f"word{index} ", 40) for index in range(6)), pieces_per_unit=3),),
    decide_ms=0,
    first_ms=0,
    gap_ms=1,
)
AUTO = {"extra_body": {"auto_response": True}}
LOUD, QUIET, LOUD_FLOAT = loud(1000), quiet(1000), float32(tone(1000, 16_000))


@dataclass(frozen=True)
class Held:
    """What a process holds."""

    num_objects: int
    num_tasks: int
    num_threads: int
    num_files: int
    rss_bytes: int


def held() -> Held:
    gc.collect()
    files = Path("/proc/self/fd")
    pages = Path("/proc/self/statm")
    rss = int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if pages.exists() else 0
    return Held(
        num_objects=len(gc.get_objects()),
        num_tasks=len(asyncio.all_tasks()),
        num_threads=threading.active_count(),
        num_files=len(list(files.iterdir())) if files.exists() else 0,
        rss_bytes=rss,
    )


class Visits:
    """The ways in which a client comes and goes, one for each point of a session's life."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._gate = Gate(hub.settings)

    def connect(self, **query: str) -> Wire:
        return Wire(self._hub, self._gate, **query)

    async def opened(self) -> tuple[Wire, dict[str, object]]:
        wire = self.connect(duplex="1")
        wire.send("session.update", session=AUTO)
        created = await wire.until("session.created")
        return wire, created

    async def speaking(self) -> tuple[Wire, dict[str, object]]:
        wire, created = await self.opened()
        wire.send("input_audio_buffer.append", audio=LOUD)
        wire.send("input_audio_buffer.append", audio=QUIET)
        await wire.until("response.speak")
        return wire, created

    def resume(self, created: dict[str, object], seq: int) -> Wire:
        wire = self.connect(duplex="1", autostart="0")
        session = created["session"]
        wire.send(
            "session.resume",
            session_id=session["id"] if isinstance(session, dict) else "",
            resume_token=created["resume_token"],
            last_received_server_event_seq=seq,
        )
        return wire

    async def at_once(self) -> None:
        await self.connect(duplex="1").cut()

    async def while_opening(self) -> None:
        wire = self.connect(duplex="1")
        wire.send("session.update", session=AUTO)
        await wire.cut()

    async def refused(self) -> None:
        wire = self.connect(duplex="1")
        wire.send("session.update", session={"temperature": "warm"})
        await wire.until("error")
        await wire.closed()
        await wire.task

    async def mid_append(self) -> None:
        wire, _ = await self.opened()
        wire.send("input_audio_buffer.append", audio=LOUD)
        await wire.cut()

    async def mid_response(self) -> None:
        wire, _ = await self.speaking()
        await wire.until("response.output_audio.delta")
        await wire.cut()

    async def closed_mid_response(self) -> None:
        wire, _ = await self.speaking()
        wire.send("session.close")
        await wire.until("session.closed")
        assert await wire.closed() == 1000
        await wire.task

    async def cancelled(self) -> None:
        wire, _ = await self.speaking()
        wire.send("response.cancel")
        await wire.until("response.done")
        wire.send("barge_in")
        wire.send("session.close")
        await wire.closed()
        await wire.task

    async def whole(self) -> None:
        wire, _ = await self.speaking()
        done = await wire.until("response.done")
        wire.send("playback.ack", played_ms=240, response_id=done["response_id"])
        wire.send("session.close")
        await wire.closed()
        await wire.task

    async def resumed_and_cut(self) -> None:
        wire, created = await self.speaking()
        delta = await wire.until("response.output_audio.delta")
        await wire.cut()
        second = self.resume(created, delta["server_event_seq"])
        if (await second.until("session.resumed", "error"))["type"] == "error":  # a slow machine: the grace is over
            await second.closed()
            await second.task
            return
        await second.until("response.done")
        await second.cut()

    async def taken_over(self) -> None:
        wire, created = await self.speaking()
        second = self.resume(created, 1)
        await second.until("session.resumed")
        await wire.until("session.replaced")
        assert await wire.closed() == 1000
        await wire.task
        third = self.resume(created, 1)
        await third.until("error")  # its token is used up
        await third.closed()
        await third.task
        second.send("session.close")
        await second.closed()
        await second.task

    async def of_openai(self) -> None:
        wire = self.connect(model="m")
        await wire.until("session.created")
        for audio in (LOUD, QUIET, QUIET, QUIET):
            wire.send("input_audio_buffer.append", audio=audio)
        await wire.until("response.created")
        await wire.cut()

    async def of_openbmb(self) -> None:
        wire = self.connect(model="m", subprotocol="map.realtime")
        await wire.until("session.queue_done")
        wire.send("session.init", payload={})
        await wire.until("session.created")
        wire.send("input.append", input={"audio": LOUD_FLOAT})
        await wire.cut()

    async def in_the_queue(self) -> None:
        wire = self.connect(model="m", subprotocol="map.realtime")
        await wire.until("session.queue_done")
        await wire.cut()


WAYS = [name for name in vars(Visits) if name not in ("connect", "opened", "speaking", "resume") and name[0] != "_"]


async def visit_all(visits: Visits, chance: random.Random, count: int) -> Counter[str]:
    ways = chance.choices(WAYS, k=count)
    places = asyncio.Semaphore(NUM_AT_ONCE)

    async def visit(way: str) -> None:
        async with places:
            try:
                await getattr(visits, way)()
            except asyncio.TimeoutError:
                raise AssertionError(f"nothing came any more in a visit {way}") from None

    await asyncio.gather(*(visit(way) for way in ways))
    return Counter(ways)


async def empty(hub: Hub) -> None:
    for _ in range(500):
        if hub.num_sessions == hub.admission.num_taken == hub.admission.num_waiting == 0:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{hub.num_sessions} sessions were left behind")


@pytest.mark.timeout(180)
def test_five_thousand_short_sessions_leave_nothing_behind(caplog: pytest.LogCaptureFixture):
    plain = settings_of("default")
    limits = Limits(max_sessions=4 * NUM_AT_ONCE, disconnect_grace_s=0.5, resume_replay_max_bytes_per_session=2**20)
    settings = replace(plain, limits=limits, max_handshakes_per_minute=10**9)

    async def run() -> tuple[Held, Held, Counter[str]]:
        hub = scripted_hub(SCRIPT, settings)
        visits, chance = Visits(hub), random.Random(7)
        await visit_all(visits, chance, NUM_WARM)
        await empty(hub)
        before = held()
        counts: Counter[str] = Counter()
        for _ in range(NUM_SESSIONS // NUM_WARM):
            counts += await visit_all(visits, chance, NUM_WARM)
            await empty(hub)
        return before, held(), counts

    before, after, counts = asyncio.run(run())
    assert set(counts) == set(WAYS)
    assert (after.num_tasks, after.num_threads, after.num_files) == (1, before.num_threads, before.num_files)
    assert after.num_objects - before.num_objects < NUM_SESSIONS / 10
    assert (
        after.rss_bytes - before.rss_bytes < 32 * 2**20
    )  # what the allocator scatters; a session has about as much KB
    assert [record for record in caplog.records if record.levelname in ("ERROR", "CRITICAL")] == []
