"""The front of the sessions: epochs, failures, bounds, and messages in any order."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from antiphon.audio.voice import VoiceFeatures
from antiphon.config.checkpoint_files import shipped_image_config
from antiphon.core.errors import CapacityError, EngineError, StateError
from antiphon.pipeline.device_loop import CODE2WAV, TALKER, THINKER
from antiphon.pipeline.duplex.front import MAX_WAITING_UNITS, DuplexFront, SessionHandle
from antiphon.pipeline.duplex.session import (
    ContextCut,
    Decided,
    InputUnit,
    Opened,
    SessionEvent,
    SessionFailed,
    SessionPlan,
    Spoken,
    UnitFailed,
    UnitFinished,
)
from antiphon.pipeline.messages import (
    Abort,
    Command,
    FrontMessage,
    RequestFailed,
    SessionCancel,
    SessionCut,
    SessionOpened,
    SessionStart,
    SessionUnit,
    UnitDecided,
    UnitDrawn,
    UnitRefused,
    UnitVoiced,
    UnitWritten,
    WorkerDied,
)
from antiphon.pipeline.voice_book import PreparedVoice
from antiphon.prompt.tokenizer import Tokenizer

SECOND = np.zeros(16_000, np.float32)


class HeldExecutor(Executor):
    """Does what it is given when the test says so."""

    def __init__(self) -> None:
        self.jobs: list[Callable[[], object]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        self.jobs.append(lambda: fn(*args, **kwargs))
        return Future()

    def run(self) -> None:
        while self.jobs:
            self.jobs.pop(0)()


class World:
    def __init__(self, voice: PreparedVoice | None = None) -> None:
        self.now_s = 10.0
        self.voice = voice
        self.sent: list[tuple[str, Command]] = []
        self.refusal: Exception | None = None
        self.pool = HeldExecutor()
        self.events: list[SessionEvent] = []
        self.front = DuplexFront(
            {stage: self.port(stage) for stage in (THINKER, TALKER, CODE2WAV)},
            Tokenizer.placeholder(512),
            image_config=shipped_image_config(),
            num_mel_bins=80,
            clock=lambda: self.now_s,
            max_sessions=2,
            executor=self.pool,
        )

    def port(self, stage: str) -> Callable[[Command], None]:
        def send(command: Command) -> None:
            if self.refusal is not None and not isinstance(command, Abort):
                raise self.refusal
            self.sent.append((stage, command))

        return send

    def open(self, name: str = "a") -> SessionHandle:
        handle = self.front.open(SessionPlan(session_id=name, voice=self.voice), self.events.append)
        self.hear(SessionOpened(request_id=name, epoch=0, num_tokens=5))
        self.events.clear()
        self.sent.clear()
        return handle

    def append(self, handle: SessionHandle, number: int, epoch: int = 0, **fields: Any) -> None:
        handle.append(InputUnit(epoch=epoch, number=number, samples=SECOND, **fields))
        self.pool.run()

    def hear(self, *messages: FrontMessage) -> None:
        for message in messages:
            self.front.receive(message)

    def commands(self, kind: type) -> list[Any]:
        return [command for _, command in self.sent if isinstance(command, kind)]


def decided(number: int, epoch: int = 0, *, speaks: bool = True) -> UnitDecided:
    return UnitDecided(request_id="a", epoch=epoch, number=number, speaks=speaks)


def written(number: int, epoch: int = 0, **fields: Any) -> UnitWritten:
    message = UnitWritten(
        request_id="a",
        epoch=epoch,
        number=number,
        ids=(70, 71),
        decided_ids=(69, 70, 71),
        terminator=1,
        is_listen=False,
        ends_turn=False,
        closed_turn=False,
        num_input_tokens=11,
        context_tokens=30,
        thinker_s=0.1,
    )
    return replace(message, **fields)


def drawn(number: int, epoch: int = 0) -> UnitDrawn:
    return UnitDrawn(request_id="a", epoch=epoch, number=number, codes=(1,) * 25, has_rolled_over=True, talker_s=0.2)


def voiced(number: int, epoch: int = 0) -> UnitVoiced:
    samples = np.ones(24_000, np.float32)
    return UnitVoiced(request_id="a", epoch=epoch, number=number, samples=samples, code2wav_s=0.3)


@pytest.fixture
def voice() -> PreparedVoice:
    features = VoiceFeatures(np.zeros(4, np.int64), np.zeros(192, np.float32), np.zeros((8, 80), np.float32))
    return PreparedVoice("key", features)


def test_a_session_with_a_voice_is_told_to_all_stages_the_thinker_last(voice: PreparedVoice) -> None:
    world = World(voice)
    world.front.open(SessionPlan(session_id="a", voice=voice, seed=4), world.events.append)
    assert [stage for stage, _ in world.sent] == [CODE2WAV, TALKER, THINKER]
    start = world.commands(SessionStart)[0]
    assert (start.speaks, start.seed, start.max_unit_chars) == (True, 4, 28)


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_a_unit_is_over_when_all_stages_have_said_theirs_in_any_order(
    voice: PreparedVoice, order: tuple[int, ...]
) -> None:
    world = World(voice)
    handle = world.open()
    world.append(handle, 0)
    world.now_s += 0.25
    world.hear(decided(0))
    world.now_s += 1.0
    messages = (written(0, ends_turn=True), drawn(0), voiced(0))
    world.hear(*(messages[index] for index in order))
    assert [type(event) for event in world.events] == [Decided, Spoken, UnitFinished]
    finished = world.events[-1]
    assert isinstance(finished, UnitFinished)
    assert (finished.num_codec_frames, finished.has_rebuilt_talker, finished.end_of_turn) == (25, True, True)
    assert (finished.decision_s, finished.late_s) == (0.25, 0.25)
    assert (finished.thinker_s, finished.talker_s, finished.code2wav_s) == (0.1, 0.2, 0.3)


def test_a_unit_of_a_session_without_a_voice_is_over_with_its_text() -> None:
    world = World()
    world.append(world.open(), 0)
    world.hear(decided(0), written(0))
    assert [type(event) for event in world.events] == [Decided, Spoken, UnitFinished]
    assert isinstance(world.events[1], Spoken)
    assert (len(world.events[1].samples), bool(world.events[1].text)) == (0, True)


def test_a_turn_that_ended_in_a_listening_unit_is_over() -> None:
    world = World()
    world.append(world.open(), 0)
    world.hear(decided(0, speaks=False), written(0, is_listen=True, closed_turn=True, ids=()))
    finished = world.events[-1]
    assert isinstance(finished, UnitFinished)
    assert (finished.is_listen, finished.end_of_turn, finished.audio_s) == (True, True, None)


def test_a_stale_epoch_output_is_dropped() -> None:
    world = World()
    handle = world.open()
    world.append(handle, 0)
    handle.cancel(1)
    handle.cancel(1)  # once is enough
    world.hear(decided(0), written(0))
    assert world.events == []
    assert world.commands(SessionCancel) == [SessionCancel(request_id="a", epoch=1)]
    world.append(handle, 1, epoch=0)  # it was on its way
    assert len(world.commands(SessionUnit)) == 1
    world.append(handle, 0, epoch=1)
    world.hear(decided(0, epoch=1), written(0, epoch=1))
    assert [getattr(event, "epoch", None) for event in world.events] == [1, 1, 1]


def test_a_unit_that_was_not_read_at_the_cancel_is_still_sent() -> None:
    world = World()
    handle = world.open()
    handle.append(InputUnit(epoch=0, number=0, samples=SECOND))
    handle.cancel(1)
    world.pool.run()
    assert [unit.epoch for unit in world.commands(SessionUnit)] == [0]


def test_units_of_one_session_are_read_one_after_another() -> None:
    world = World()
    handle = world.open()
    for number in range(3):
        handle.append(InputUnit(epoch=0, number=number, samples=SECOND))
    assert len(world.pool.jobs) == 1
    world.pool.run()
    assert [unit.number for unit in world.commands(SessionUnit)] == [0, 1, 2]
    assert world.commands(SessionUnit)[0].deadline_s > world.now_s


@pytest.mark.parametrize(
    ("samples", "text"),
    [(np.full(16_000, np.inf, np.float32), "not finite"), (np.zeros(100, np.float32), r"shape \(100,\)")],
)
def test_a_unit_that_cannot_be_read_fails_and_ends_the_models_turn(samples: Any, text: str) -> None:
    world = World()
    handle = world.open()
    handle.append(InputUnit(epoch=0, number=0, samples=samples))
    world.pool.run()
    failed = world.events[0]
    assert isinstance(failed, UnitFailed)
    assert failed.code == "bad_media"
    assert len(world.commands(SessionCancel)) == 1
    world.append(handle, 1)
    assert len(world.commands(SessionUnit)) == 1


def test_an_error_of_the_pool_fails_the_unit() -> None:
    world = World()
    handle = world.open()
    handle.append(InputUnit(epoch=0, number=0, samples=None))  # type: ignore[arg-type]
    world.pool.run()
    failed = world.events[0]
    assert isinstance(failed, UnitFailed)
    assert "could not be prepared" in failed.message


def test_a_refused_unit_fails_alone_and_ends_the_models_turn() -> None:
    world = World()
    world.append(world.open(), 0)
    refused = UnitRefused(request_id="a", epoch=0, number=0, code="talker_context_exceeded", message="too long")
    world.hear(refused, written(0))
    assert world.events == [UnitFailed(0, 0, "talker_context_exceeded", "too long")]
    assert world.commands(SessionCancel) == [SessionCancel(request_id="a", epoch=0)]


def test_too_many_units_at_once_are_refused_one_by_one() -> None:
    world = World()
    handle = world.open()
    for number in range(MAX_WAITING_UNITS + 2):
        handle.append(InputUnit(epoch=0, number=number, samples=SECOND))
    failed = world.events[0]
    assert isinstance(failed, UnitFailed)
    assert failed.code == CapacityError.code
    assert len(world.events) == 1


def test_a_cut_is_told() -> None:
    world = World()
    world.open()
    world.hear(SessionCut(request_id="a", epoch=0, num_units=2, num_tokens=30, context_tokens=50))
    assert world.events == [ContextCut(2, 30, 50)]


def test_a_failed_stage_ends_the_session_everywhere(voice: PreparedVoice) -> None:
    world = World(voice)
    handle = world.open()
    world.hear(RequestFailed(request_id="a", epoch=0, stage=TALKER, code="engine_error", message="no"))
    failed = world.events[-1]
    assert isinstance(failed, SessionFailed)
    assert (failed.stage, str(failed.error)) == (TALKER, "no")
    assert [stage for stage, _ in world.sent] == [CODE2WAV, TALKER, THINKER]
    assert len(world.commands(Abort)) == 3
    world.append(handle, 0)
    handle.cancel(1)
    handle.close()
    assert len(world.events) == 1
    assert world.front.num_sessions == 0


def test_a_command_that_a_stage_refuses_ends_the_session() -> None:
    world = World()
    handle = world.open()
    world.refusal = CapacityError("full")
    world.append(handle, 0)
    assert isinstance(world.events[-1], SessionFailed)
    with pytest.raises(CapacityError, match="full"):
        world.front.open(SessionPlan(session_id="b"), world.events.append)
    assert world.front.num_sessions == 0


def test_a_dead_stage_ends_its_sessions_and_takes_no_new_ones(voice: PreparedVoice) -> None:
    world = World(voice)
    world.open()
    world.front.open(SessionPlan(session_id="text"), lambda event: None)
    world.hear(WorkerDied(stages=(TALKER,), message="gone"))
    assert isinstance(world.events[-1], SessionFailed)
    assert world.front.num_sessions == 1
    with pytest.raises(EngineError, match="the talker stage has died: gone"):
        world.front.open(SessionPlan(session_id="b", voice=voice), world.events.append)


def test_sessions_are_bounded_and_have_names_of_their_own() -> None:
    world = World()
    world.open("a")
    with pytest.raises(StateError, match="lives already"):
        world.front.open(SessionPlan(session_id="a"), world.events.append)
    world.open("b")
    with pytest.raises(CapacityError, match="2 sessions live"):
        world.front.open(SessionPlan(session_id="c"), world.events.append)


def test_a_closed_front_tells_its_sessions_and_takes_no_more() -> None:
    world = World()
    world.open()
    world.front.close()
    assert isinstance(world.events[-1], SessionFailed)
    with pytest.raises(StateError, match="closed"):
        world.front.open(SessionPlan(session_id="b"), world.events.append)


def test_an_opened_session_says_how_long_its_context_is() -> None:
    world = World()
    world.front.open(SessionPlan(session_id="a"), world.events.append)
    world.hear(
        SessionOpened(request_id="a", epoch=0, num_tokens=5), SessionOpened(request_id="x", epoch=0, num_tokens=1)
    )
    assert world.events == [Opened(5)]
