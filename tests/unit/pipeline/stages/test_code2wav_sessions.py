"""Turns as streams and units as their chunks. The engine is a fake."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from antiphon.engine.code2wav_streams import SpeechJob, SpeechOutput
from antiphon.pipeline.messages import RequestFailed, SessionVoice, StageOutput, UnitCodes, UnitVoiced
from antiphon.pipeline.stages.code2wav_sessions import Code2WavSessions

CHUNK = tuple(range(28))


class FakeEngine:
    def __init__(self) -> None:
        self.jobs: list[SpeechJob] = []
        self.pushed: list[tuple[str, int, bool]] = []
        self.closed: list[str] = []
        self.aborted: list[str] = []

    def warm_up(self, report: Callable[[str], None]) -> None: ...

    def add_voice(self, key: str, prompt: object) -> None: ...

    def has_voice(self, key: str) -> bool:
        return True

    def admit(self, job: SpeechJob) -> None:
        self.jobs.append(job)

    def push(self, stream_id: str, codes: tuple[int, ...], *, is_last: bool) -> None:
        self.pushed.append((stream_id, len(codes), is_last))

    def close_input(self, stream_id: str) -> None:
        self.closed.append(stream_id)

    def abort(self, stream_id: str) -> None:
        self.aborted.append(stream_id)

    def launch(self) -> bool:
        return False

    def collect(self) -> list[SpeechOutput]:
        return []

    def snapshot(self) -> dict[str, float]:
        return {}


class World:
    def __init__(self) -> None:
        self.engine = FakeEngine()
        self.voices: list[str] = []
        self.sessions = Code2WavSessions(
            self.engine, lambda request: self.voices.append(request.voice_key), clock=lambda: 0.0
        )
        self.sessions.start(
            SessionVoice(
                request_id="a",
                epoch=0,
                voice_key="v",
                voice_codes=np.zeros(1, np.int64),
                voice_xvector=np.zeros(192, np.float32),
                voice_mel=np.zeros((2, 80), np.float32),
                seed=3,
                deadline_s=0.0,
            )
        )

    def unit(self, number: int, *chunks: tuple[int, ...], **fields: Any) -> list[StageOutput]:
        fields = {"epoch": 0, "ends_turn": False, **fields}
        self.sessions.extend(UnitCodes(request_id="a", number=number, chunks=chunks, **fields))
        return self.taken()

    def voice(self, stream_id: str, num_samples: int, reason: str | None = None, **fields: Any) -> list[StageOutput]:
        samples = np.ones(num_samples, np.float32)
        self.sessions.take(SpeechOutput(stream_id, 0, samples, False, reason, **fields))
        return self.taken()

    def taken(self) -> list[StageOutput]:
        outputs, self.sessions.outputs = self.sessions.outputs, []
        return outputs


def voiced(outputs: list[StageOutput]) -> list[tuple[int, int]]:
    """Number and samples of each unit."""
    assert all(isinstance(output, UnitVoiced) for output in outputs)
    return [(output.number, len(output.samples)) for output in outputs if isinstance(output, UnitVoiced)]


def test_a_unit_is_a_second_with_silence_in_front_of_what_the_first_holds_back() -> None:
    world = World()
    assert world.unit(0, CHUNK) == []
    assert world.sessions.waits_for_first
    (first,) = world.voice("a/0", 20_160)
    assert isinstance(first, UnitVoiced)
    assert len(first.samples) == 24_000
    assert not first.samples[:3840].any()
    assert first.samples[3840:].all()
    assert not world.sessions.waits_for_first


def test_a_unit_without_chunks_is_a_second_of_silence_and_opens_nothing() -> None:
    world = World()
    assert voiced(world.unit(0)) == [(0, 24_000)]
    assert world.engine.jobs == []


def test_the_last_unit_of_a_turn_is_as_long_as_it_is_and_ends_the_stream() -> None:
    world = World()
    world.unit(0, CHUNK, CHUNK[:3], ends_turn=True)
    assert world.engine.pushed == [("a/0", 28, False), ("a/0", 3, True)]
    assert world.engine.closed == ["a/0"]
    assert world.voice("a/0", 20_160) == []
    assert voiced(world.voice("a/0", 6720, "stop")) == [(0, 26_880)]
    assert world.sessions.snapshot() == {"sessions": 1, "session_turns": 0}


def test_each_turn_is_a_stream_of_its_own_and_its_voice_is_made_ready_again() -> None:
    world = World()
    world.unit(0, CHUNK[:3], ends_turn=True)
    world.unit(1, CHUNK)
    assert [job.stream_id for job in world.engine.jobs] == ["a/0", "a/1"]
    assert world.voices == ["v", "v", "v"]
    assert world.voice("a/1", 20_160) == []  # in order, whichever stream is first
    assert voiced(world.voice("a/0", 2880, "stop")) == [(0, 2880), (1, 24_000)]


def test_a_forced_listen_lets_what_waits_sound_and_then_begins_anew() -> None:
    world = World()
    world.unit(0, CHUNK)
    assert world.unit(-1, resets_voice=True) == []
    assert world.engine.aborted == []
    assert world.engine.closed == ["a/0"]
    world.unit(1, CHUNK)
    assert voiced(world.voice("a/0", 20_160, "stop")) == [(0, 24_000)]
    assert voiced(world.voice("a/1", 20_160)) == [(1, 24_000)]


def test_a_cut_off_drops_what_waits_and_what_still_sounds() -> None:
    world = World()
    world.unit(0, CHUNK[:3], ends_turn=True)
    world.unit(1, CHUNK)
    assert world.unit(-1, resets_voice=True, ends_turn=True) == []
    assert world.engine.aborted == ["a/0", "a/1"]
    assert "a/0" not in world.sessions
    assert not world.sessions.is_busy
    world.unit(0, CHUNK, epoch=1)
    assert world.engine.jobs[-1].stream_id == "a/2"


def test_an_end_that_comes_by_itself_is_no_chunk() -> None:
    world = World()
    world.unit(0, CHUNK[:3], ends_turn=True)
    assert voiced(world.voice("a/0", 2880)) == [(0, 2880)]
    assert world.voice("a/0", 0, "stop") == []
    assert "a/0" not in world.sessions


@pytest.mark.parametrize("error", ["no numbers", None])
def test_a_failed_stream_ends_the_session(error: str | None) -> None:
    world = World()
    world.unit(0, CHUNK)
    (failed,) = world.voice("a/0", 0, "error", error=error)
    assert isinstance(failed, RequestFailed)
    assert failed.message == (error or "code2wav gave the session up")
    assert world.unit(1, CHUNK) == []
    assert not world.sessions.abort("a")
