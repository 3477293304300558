"""Settings to plans, commands to units, and the pipeline's events to outputs. Front and voices are fakes."""

import asyncio
import io
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from antiphon.core.errors import CapacityError, ContextLengthError, EngineError
from antiphon.engine.context_window import WindowMode
from antiphon.pipeline.duplex import session as pipeline
from antiphon.realtime import engine as realtime
from antiphon.realtime.settings import ContextWindow, SessionSettings
from antiphon.realtime.voice import VoiceClip
from antiphon.serving.realtime.pipeline_engine import DEFAULT_VOICE, PipelineDuplexEngine, PipelineSession, window_of
from antiphon.serving.realtime.settings import DEFAULT_SESSION

SETTINGS = replace(DEFAULT_SESSION, reference=DEFAULT_VOICE)


class InlineExecutor(Executor):
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


class FakeHandle:
    def __init__(self) -> None:
        self.said: list[object] = []

    def append(self, unit: pipeline.InputUnit) -> None:
        self.said.append(unit)

    def cancel(self, epoch: int) -> None:
        self.said.append(epoch)

    def end_turn(self) -> None:
        self.said.append("end_turn")

    def close(self) -> None:
        self.said.append("close")


class FakeFront:
    max_sessions = 4

    def __init__(self) -> None:
        self.plans: list[pipeline.SessionPlan] = []
        self.delivers: list[pipeline.Deliver] = []
        self.handles: list[FakeHandle] = []
        self.refusal: Exception | None = None
        self.gate: threading.Event | None = None

    def open(self, plan: pipeline.SessionPlan, deliver: pipeline.Deliver) -> FakeHandle:
        if self.gate is not None:
            assert self.gate.wait(5)
        if self.refusal is not None:
            raise self.refusal
        self.plans.append(plan)
        self.delivers.append(deliver)
        self.handles.append(FakeHandle())
        return self.handles[-1]


class FakeVoices:
    def __init__(self) -> None:
        self.prepared: list[object] = []

    def prepare(self, source: object) -> str:
        self.prepared.append(source)
        return "voice"


class World:
    def __init__(
        self, settings: SessionSettings = SETTINGS, *, recording: Path | None = None, speaks: bool = True
    ) -> None:
        self.front, self.voices, self.told = FakeFront(), FakeVoices(), list[realtime.EngineOutput]()
        self.engine = PipelineDuplexEngine(
            self.front,  # type: ignore[arg-type]
            self.voices,  # type: ignore[arg-type]
            model="tiny",
            default_recording=recording,
            max_voice_s=0.5,
            max_positions=1000,
            speaks=speaks,
            executor=InlineExecutor(),
        )
        self.session = PipelineSession(self.engine, "s", settings, self.told.append)

    def begin(self) -> FakeHandle:
        self.session.begin()
        return self.front.handles[-1]

    def hear(self, event: pipeline.SessionEvent) -> list[realtime.EngineOutput]:
        self.told.clear()
        self.front.delivers[-1](event)
        return list(self.told)


def unit(number: int = 0, **fields: Any) -> realtime.Unit:
    return realtime.Unit(epoch=0, number=number, samples=np.zeros(16_000, np.float32), **fields)


def finished(**fields: Any) -> pipeline.UnitFinished:
    given: dict[str, Any] = {
        name: 0 for name, field in pipeline.UnitFinished.__dataclass_fields__.items() if field.type != "bool"
    }
    given |= {name: False for name in pipeline.UnitFinished.__dataclass_fields__ if name.startswith(("is_", "has_"))}
    return pipeline.UnitFinished(**{**given, "end_of_turn": False, **fields})


@pytest.fixture
def recording(tmp_path: Path, encode_audio: Callable[..., bytes], tone: Callable[..., Any]) -> Path:
    path = tmp_path / "voice.wav"
    path.write_bytes(encode_audio(tone(2.0)))
    return path


def test_a_session_begins_with_the_models_own_voice_and_hears_its_recording(recording: Path) -> None:
    world = World(recording=recording)
    world.begin()
    (plan,) = world.front.plans
    assert (plan.session_id, plan.voice, world.voices.prepared) == ("s.0", "voice", [None])
    assert plan.reference is not None
    assert len(plan.reference) == 8000  # cut


def test_a_recording_of_the_client_is_voice_and_reference(
    encode_audio: Callable[..., bytes], tone: Callable[..., Any]
) -> None:
    data = encode_audio(tone(0.3))
    world = World(replace(SETTINGS, reference=VoiceClip(data), instructions="Be brief.", initial_user_text="Hi"))
    world.begin()
    (plan,) = world.front.plans
    assert world.voices.prepared == [data]
    assert plan.reference is not None
    assert len(plan.reference) == 4800
    assert (plan.instructions, plan.first_text) == ("Be brief.", "Hi")


@pytest.mark.parametrize(("modalities", "speaks"), [(("text",), True), (("text", "audio"), False), (("text",), False)])
def test_a_session_without_speech_prepares_no_voice(modalities: tuple[str, ...], speaks: bool) -> None:
    world = World(replace(SETTINGS, modalities=modalities), speaks=speaks)
    world.begin()
    assert world.front.plans[0].voice is None
    assert world.voices.prepared == []


def test_the_windows_marks_are_lowered_to_what_the_engine_holds() -> None:
    asked = ContextWindow(mode="basic", high_tokens=8000, low_tokens=6000, max_units=5, previous_max_tokens=9)
    small = window_of(asked, 1000)
    assert (small.mode, small.high_tokens, small.low_tokens) == (WindowMode.BASIC, 750, 562)
    assert (small.max_units, small.max_previous_ids) == (5, 9)
    large = window_of(asked, 40_960)
    assert (large.high_tokens, large.low_tokens) == (8000, 6000)


def test_a_unit_carries_the_settings_of_its_session() -> None:
    world = World(replace(SETTINGS, temperature=0.5, length_penalty=1.3, max_unit_tokens=7))
    handle = world.begin()
    world.session.send(realtime.Append(unit(3, force_listen=True)))
    (sent,) = handle.said
    assert isinstance(sent, pipeline.InputUnit)
    assert (sent.number, sent.force_listen, sent.max_tokens) == (3, True, 7)
    assert (sent.sampling.temperature, sent.sampling.length_penalty, sent.sampling.is_greedy) == (0.5, 1.3, False)
    world.session.send(realtime.Reconfigure(replace(SETTINGS, temperature=0.0)))
    world.session.send(realtime.Append(unit(4)))
    sent = handle.said[-1]
    assert isinstance(sent, pipeline.InputUnit)
    assert (sent.sampling.is_greedy, sent.sampling.length_penalty, sent.max_tokens) == (True, 1.1, 20)


def test_new_settings_before_any_input_begin_the_session_anew() -> None:
    world = World()
    first = world.begin()
    world.session.send(realtime.Reconfigure(replace(SETTINGS, instructions="Sing.")))
    assert first.said == ["close"]
    assert [plan.session_id for plan in world.front.plans] == ["s.0", "s.1"]
    assert world.front.plans[1].instructions == "Sing."
    world.front.delivers[0](pipeline.Decided(0, 0, True))  # of the one that was closed
    assert world.told == []


def test_new_settings_after_input_leave_the_context_alone() -> None:
    world = World()
    handle = world.begin()
    world.session.send(realtime.Append(unit()))
    world.session.send(realtime.Reconfigure(replace(SETTINGS, instructions="Sing.")))
    assert len(world.front.plans) == 1
    assert "close" not in handle.said


def test_new_settings_that_cannot_be_begun_with_end_the_session() -> None:
    world = World()
    world.begin()
    world.front.refusal = CapacityError("full")
    world.session.send(realtime.Reconfigure(replace(SETTINGS, instructions="Sing.")))
    assert world.told == [realtime.EngineFailed(CapacityError.code, "full"), realtime.EngineClosed()]


def test_pictures_are_decoded_and_a_broken_one_fails_its_unit_and_ends_the_turn() -> None:
    world = World()
    handle = world.begin()
    file = io.BytesIO()
    Image.new("RGB", (8, 6)).save(file, "PNG")
    world.session.send(realtime.Append(unit(frames=(file.getvalue(),))))
    sent = handle.said[0]
    assert isinstance(sent, pipeline.InputUnit)
    assert [frame.size for frame in sent.frames] == [(8, 6)]
    world.session.send(realtime.Append(unit(1, frames=(b"nothing",))))
    (failed,) = world.told
    assert isinstance(failed, realtime.UnitFailed)
    assert (failed.number, failed.code) == (1, "invalid_video_frames")
    assert handle.said[1:] == ["end_turn"]


def test_a_mistake_in_a_command_ends_the_session_instead_of_hanging_it() -> None:
    world = World()
    world.begin()
    world.session.send(realtime.Append(unit(frames=(None,))))  # type: ignore[arg-type]
    assert isinstance(world.told[0], realtime.EngineFailed)
    assert world.told[-1] == realtime.EngineClosed()
    world.session.send(realtime.Append(unit(1)))
    assert len(world.told) == 2


def test_events_become_outputs() -> None:
    world = World()
    world.begin()
    assert world.hear(pipeline.Decided(1, 2, True)) == [realtime.Decided(1, 2, True)]
    samples = np.ones(4, np.float32)
    (speech,) = world.hear(pipeline.Spoken(1, 2, "hi", samples))
    assert isinstance(speech, realtime.Speech)
    assert (speech.text, speech.samples is samples) == ("hi", True)
    counted = []
    world.engine.on_unit = counted.append
    done = world.hear(finished(end_of_turn=True, num_codec_frames=25, has_rebuilt_talker=True))
    assert [getattr(output, "code", "") for output in done] == ["talker_window_rebuilt", ""]
    assert isinstance(done[1], realtime.UnitDone)
    assert (done[1].end_of_turn, done[1].num_codec_frames) == (True, 25)
    assert len(counted) == 1
    (failed,) = world.hear(pipeline.UnitFailed(1, 2, "talker_context_exceeded", "long"))
    assert failed == realtime.UnitFailed(1, 2, "talker_context_exceeded", "long")
    (cut,) = world.hear(pipeline.ContextCut(3, 40, 500))
    assert isinstance(cut, realtime.ContextNotice)
    assert (cut.code, cut.details) == ("context_window_moved", {"units": 3, "tokens": 40, "context_tokens": 500})
    assert world.hear(pipeline.Opened(4)) == []


def test_a_window_that_the_session_set_does_not_give_way_unnoticed() -> None:
    asked = World(replace(SETTINGS, window=replace(SETTINGS.window, high_tokens=7000)))
    asked.begin()
    (notice,) = asked.hear(pipeline.Opened(4))
    assert isinstance(notice, realtime.ContextNotice)
    assert (notice.code, notice.details) == ("context_window_lowered", {"high_tokens": 750, "low_tokens": 642})
    fitting = World(replace(SETTINGS, window=replace(SETTINGS.window, high_tokens=700, low_tokens=500)))
    fitting.begin()
    assert fitting.hear(pipeline.Opened(4)) == []


def test_a_context_that_is_nearly_full_is_told_once_and_only_without_a_window() -> None:
    off = World(replace(SETTINGS, window=replace(SETTINGS.window, mode="off")))
    off.begin()
    assert len(off.hear(finished(context_tokens=799))) == 1
    notice = off.hear(finished(context_tokens=800))[0]
    assert isinstance(notice, realtime.ContextNotice)
    assert (notice.code, notice.details["ratio"]) == ("context_nearly_full", 0.8)
    assert len(off.hear(finished(context_tokens=900))) == 1
    sliding = World(replace(SETTINGS, window=replace(SETTINGS.window, mode="basic")))
    sliding.begin()
    assert len(sliding.hear(finished(context_tokens=999))) == 1


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (pipeline.UnitFailed(0, 0, ContextLengthError.code, "full"), "context_length_exceeded"),
        (pipeline.SessionFailed(EngineError("full"), "talker"), "engine_error"),
    ],
)
def test_what_ends_a_session_is_told_once(event: pipeline.SessionEvent, code: str) -> None:
    world = World()
    handle = world.begin()
    assert world.hear(event) == [realtime.EngineFailed(code, "full"), realtime.EngineClosed()]
    assert handle.said == ["close"]
    assert world.hear(event) == []


def test_cancel_and_close_reach_the_pipeline() -> None:
    world = World()
    handle = world.begin()
    world.session.send(realtime.Cancel(3, "heard"))
    world.session.send(realtime.Close("client"))
    assert handle.said == [3, "close"]
    assert world.told == [realtime.EngineClosed()]


def test_a_command_behind_the_end_of_the_threads_is_still_carried_out() -> None:
    world = World()
    engine = PipelineDuplexEngine(
        world.front,  # type: ignore[arg-type]
        world.voices,  # type: ignore[arg-type]
        model="tiny",
        default_recording=None,
        max_voice_s=1.0,
        max_positions=1000,
        speaks=True,
    )
    session = PipelineSession(engine, "s", SETTINGS, world.told.append)
    session.begin()
    engine.close()
    session.send(realtime.Close("shutdown"))
    assert world.told == [realtime.EngineClosed()]


def test_a_session_whose_opening_nobody_waited_for_is_closed() -> None:
    world = World()
    world.front.gate = threading.Event()
    engine = PipelineDuplexEngine(
        world.front,  # type: ignore[arg-type]
        world.voices,  # type: ignore[arg-type]
        model="tiny",
        default_recording=None,
        max_voice_s=1.0,
        max_positions=1000,
        speaks=True,
    )

    async def scene() -> None:
        opening = asyncio.create_task(engine.open("s", SETTINGS, world.told.append))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert world.front.gate is not None
        world.front.gate.set()
        while not world.told:
            await asyncio.sleep(0.001)

    asyncio.run(scene())
    engine.close()
    assert world.front.handles[0].said == ["close"]
