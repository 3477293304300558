"""Sessions of the Thinker over a fake engine: shared launches, one session's mistake, refusals, cuts, the end."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from antiphon.core.errors import CapacityError, ContextLengthError, MediaError, StateError
from antiphon.engine.audio_messages import AudioRows, AudioStep
from antiphon.engine.context_window import Cut, WindowConfig, WindowMode
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.duplex_decision import DecisionSampling
from antiphon.engine.thinker_messages import ThinkerJob, ThinkerOutput, ThinkerPiece, TurnEnd
from antiphon.pipeline.messages import (
    RequestFailed,
    SessionCancel,
    SessionCut,
    SessionOpened,
    SessionStart,
    SessionUnit,
    SpokenUnit,
    StageOutput,
    UnitDecided,
    UnitImage,
    UnitRefused,
    UnitWritten,
)
from antiphon.pipeline.stages.thinker_sessions import MAX_WAITING_UNITS, ThinkerSessions
from antiphon.prompt.tokenizer import Tokenizer

TOKENIZER = Tokenizer.placeholder(512)
SPECIAL = TOKENIZER.special
HIDDEN = 8
CPU = DeviceStream(torch.device("cpu"))


class FakeEngine:
    def __init__(self) -> None:
        self.jobs: list[ThinkerJob] = []
        self.pieces: dict[str, list[ThinkerPiece]] = {}
        self.aborted: list[str] = []
        self.cuts: list[Cut] = []
        self.may_cut = True
        self.refusal: Exception | None = None

    def admit(self, job: ThinkerJob) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.jobs.append(job)
        self.pieces[job.seq_id] = []

    def extend(self, seq_id: str, piece: ThinkerPiece) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.pieces[seq_id].append(piece)

    def abort(self, seq_id: str) -> None:
        self.aborted.append(seq_id)

    def can_cut(self, seq_id: str) -> bool:
        return self.may_cut

    def cut(self, seq_id: str, cut: Cut) -> None:
        self.cuts.append(cut)


class FakeStreams:
    def __init__(self) -> None:
        self.open_ids: set[str] = set()
        self.calls: list[list[str]] = []
        self.broken: set[str] = set()

    def warm_up(self, report: Callable[[str], None]) -> None: ...

    def open(self, stream_id: str) -> None:
        self.open_ids.add(stream_id)

    def step(self, steps: Sequence[AudioStep]) -> AudioRows:
        names = [step.stream_id for step in steps]
        if self.broken & set(names):
            raise MediaError("not a second")
        self.calls.append(names)
        return AudioRows(tuple(torch.zeros(10, HIDDEN) for _ in steps), CPU.fence())

    def close(self, stream_id: str) -> None:
        self.open_ids.discard(stream_id)

    def snapshot(self) -> dict[str, float]:
        return {"audio_streams": len(self.open_ids)}


class FakeModel:
    def encode_images(self, strips: Sequence[Tensor], grids: Sequence[tuple[int, int]]) -> list[Tensor]:
        if any(strip.isnan().any() for strip in strips):
            raise RuntimeError("size of tensor a")
        return [torch.zeros(4, HIDDEN) for _ in strips]

    def encode_audio(self, mels: Sequence[Tensor]) -> list[Tensor]:
        return [torch.zeros(5, HIDDEN) for _ in mels]


class World:
    def __init__(self, *, max_positions: int = 1000) -> None:
        self.engine, self.streams = FakeEngine(), FakeStreams()
        self.sessions = ThinkerSessions(
            self.engine,
            FakeModel(),
            self.streams,
            TOKENIZER,
            stream=CPU,
            hidden_size=HIDDEN,
            max_positions=max_positions,
            clock=lambda: 0.0,
        )

    def start(self, name: str, **fields: Any) -> list[StageOutput]:
        start = SessionStart(
            request_id=name,
            epoch=0,
            prefix=(1, 2),
            reference=(),
            suffix=(3,),
            window=WindowConfig(),
            speaks=True,
            seed=0,
            max_unit_chars=None,
        )
        self.sessions.start(replace(start, **fields))
        return self.hear(name, has_ended_turn=True)

    def unit(self, name: str, number: int = 0, **fields: Any) -> None:
        unit = SessionUnit(
            request_id=name,
            epoch=0,
            number=number,
            mel=np.zeros((80, 104), np.float32),
            trim_front=1,
            trim_end=1,
            images=(),
            force_listen=False,
            sampling=DecisionSampling(),
            max_tokens=20,
            deadline_s=3.0,
        )
        self.sessions.unit(replace(unit, **fields))

    def hear(self, name: str, *ids: int, **fields: Any) -> list[StageOutput]:
        hidden = torch.ones(len(ids), HIDDEN) if ids else None
        self.sessions.take(
            ThinkerOutput(
                seq_id=name, epoch=0, new_ids=ids, row_ids=ids, hidden=hidden, **{"is_turn_open": bool(ids), **fields}
            )
        )
        return self.taken()

    def speak(self, name: str, *ids: int) -> list[StageOutput]:
        """The running unit says *ids*."""
        said = self.hear(name, *ids)
        return said + self.hear(
            name, has_ended_turn=True, finish_reason=TurnEnd.STOP, stop_id=SPECIAL.chunk_eos, is_turn_open=True
        )

    def taken(self) -> list[StageOutput]:
        outputs, self.sessions.outputs = self.sessions.outputs, []
        return outputs


def types(outputs: Sequence[StageOutput]) -> list[type]:
    return [type(output) for output in outputs]


def test_a_session_is_opened_behind_its_system_part() -> None:
    world = World()
    mel = np.zeros((80, 50), np.float32)
    (opened,) = world.start("a", reference=(mel,))
    assert isinstance(opened, SessionOpened)
    assert opened.num_tokens == 8
    (job,) = world.engine.jobs
    assert job.ids == (1, 2, *(SPECIAL.unk,) * 5, 3)
    assert (job.decode, job.is_resumable, job.media[0].start) == (False, True, 2)


def test_a_session_that_the_engine_refuses_holds_no_audio_stream() -> None:
    world = World()
    world.engine.refusal = CapacityError("full")
    with pytest.raises(CapacityError):
        world.start("a")
    assert world.streams.open_ids == set()
    assert "a" not in world.sessions


def test_the_audio_of_all_sessions_is_encoded_together() -> None:
    world = World()
    for name in "abc":
        world.start(name)
        world.unit(name)
    assert world.sessions.is_busy
    assert world.sessions.launch()
    assert world.streams.calls == [["a", "b", "c"]]
    piece = world.engine.pieces["b"][0]
    assert (piece.decode, piece.wants_hidden, piece.deadline_s) == (True, True, 3.0)
    assert not world.sessions.launch()


def test_what_a_unit_says_is_handed_on_without_its_first_id() -> None:
    world = World()
    world.start("a")
    world.unit("a")
    world.sessions.launch()
    outputs = world.speak("a", SPECIAL.speak, 70, 71)
    assert types(outputs) == [UnitDecided, UnitWritten, SpokenUnit]
    spoken = outputs[2]
    assert isinstance(spoken, SpokenUnit)
    assert (spoken.ids, spoken.rows.shape) == ((70, 71), (2, HIDDEN))
    world.unit("a", 1)
    world.sessions.launch()
    assert world.engine.pieces["a"][1].ids[:2] == (SPECIAL.chunk_eos, SPECIAL.unit_end)


def test_one_sessions_broken_audio_ends_that_session_only() -> None:
    world = World()
    for name in "abc":
        world.start(name)
        world.unit(name)
    world.streams.broken = {"b"}
    world.sessions.launch()
    (failed,) = world.taken()
    assert isinstance(failed, RequestFailed)
    assert (failed.request_id, failed.code) == ("b", MediaError.code)
    assert world.streams.calls == [["a"], ["c"]]
    assert "b" not in world.sessions
    assert world.streams.open_ids == {"a", "c"}


def test_one_sessions_broken_picture_ends_that_session_only() -> None:
    world = World()
    for name in "ab":
        world.start(name)
    strip = np.full((3, 14, 14), np.nan, np.float32)
    world.unit("a", images=(UnitImage(strip=strip, grid=(1, 1), is_slice=False),))
    world.unit("b")
    world.sessions.launch()
    (failed,) = world.taken()
    assert isinstance(failed, RequestFailed)
    assert failed.request_id == "a"
    assert "pictures" in failed.message
    assert world.streams.calls == [["b"]]


def test_a_unit_that_does_not_fit_is_refused_by_name_and_not_heard() -> None:
    world = World(max_positions=35)
    world.start("a")
    world.unit("a")
    world.sessions.launch()
    (refused,) = world.taken()
    assert isinstance(refused, UnitRefused)
    assert refused.code == ContextLengthError.code
    assert "need 33 positions, 32 of 35 are left" in refused.message
    assert world.streams.calls == []


def test_too_many_units_that_wait_are_refused() -> None:
    world = World()
    world.start("a")
    for number in range(MAX_WAITING_UNITS + 1):
        world.unit("a", number)
    (refused,) = world.taken()
    assert isinstance(refused, UnitRefused)
    assert (refused.number, refused.code) == (MAX_WAITING_UNITS, CapacityError.code)


def test_a_cancel_resets_the_voice_at_once_and_what_the_unit_still_says_is_not_spoken() -> None:
    world = World()
    world.start("a")
    world.unit("a")
    world.sessions.launch()
    world.hear("a", SPECIAL.speak)
    world.sessions.cancel(SessionCancel(request_id="a", epoch=1))
    (reset,) = world.taken()
    assert isinstance(reset, SpokenUnit)
    assert (reset.resets_voice, reset.ends_turn) == (True, True)
    assert types(world.speak("a", 70)) == [UnitWritten]


def test_a_cancel_of_a_silent_session_says_nothing_to_the_talker() -> None:
    world = World()
    world.start("a", speaks=False)
    world.sessions.cancel(SessionCancel(request_id="a", epoch=1))
    assert world.taken() == []


def test_a_context_is_cut_once_the_last_launch_has_come_back() -> None:
    world = World()
    world.start("a", window=WindowConfig(mode=WindowMode.BASIC, high_tokens=20, low_tokens=10), speaks=False)
    for number in range(2):
        world.unit("a", number)
        world.sessions.launch()
        if number == 0:
            world.hear("a", has_ended_turn=True, finish_reason=TurnEnd.STOP, stop_id=SPECIAL.listen)
    world.hear("a", has_ended_turn=True, finish_reason=TurnEnd.STOP, stop_id=SPECIAL.listen)
    closing = world.engine.pieces["a"][-1]
    assert (closing.ids, closing.decode) == ((SPECIAL.listen, SPECIAL.unit_end), False)
    world.engine.may_cut = False
    world.hear("a", has_ended_turn=True)
    assert not world.sessions.launch()
    assert world.sessions.is_busy
    world.engine.may_cut = True
    assert world.sessions.launch()
    (cut,) = world.taken()
    assert isinstance(cut, SessionCut)
    assert (cut.num_units, cut.num_tokens, cut.context_tokens) == (2, 26, 3)
    assert not world.sessions.is_busy


def test_a_sequence_that_the_engine_gives_up_ends_its_session() -> None:
    world = World()
    world.start("a")
    (failed,) = world.hear("a", is_last=True, has_ended_turn=True, finish_reason=TurnEnd.ERROR, error="not finite")
    assert isinstance(failed, RequestFailed)
    assert failed.message == "not finite"
    assert world.hear("a", 70) == []


def test_a_refusal_of_the_engine_ends_the_session_with_its_code() -> None:
    world = World()
    world.start("a")
    world.unit("a")
    world.engine.refusal = StateError("busy")
    world.sessions.launch()
    (failed,) = world.taken()
    assert isinstance(failed, RequestFailed)
    assert failed.code == StateError.code


def test_an_ended_session_leaves_nothing() -> None:
    world = World()
    world.start("a")
    world.unit("a")
    assert world.sessions.abort("a")
    assert not world.sessions.abort("a")
    world.unit("a")
    world.sessions.cancel(SessionCancel(request_id="a", epoch=1))
    assert not world.sessions.launch()
    assert world.engine.aborted == ["a"]
    assert set(world.sessions.snapshot().values()) == {0}
