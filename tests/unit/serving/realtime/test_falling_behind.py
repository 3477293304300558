"""A session whose units take too long: what it is told, and what the model is no longer shown."""

import io
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image

from antiphon.pipeline.duplex import session as pipeline
from antiphon.realtime import engine as realtime
from antiphon.serving.realtime.pipeline_engine import PipelineDuplexEngine, PipelineSession
from antiphon.serving.realtime.settings import DEFAULT_SESSION


class InlineExecutor(Executor):
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


class FakeFront:
    """One session of the pipeline, which the test plays."""

    def __init__(self) -> None:
        self.units: list[pipeline.InputUnit] = []

    def open(self, plan: pipeline.SessionPlan, deliver: pipeline.Deliver) -> "FakeFront":
        self.deliver = deliver
        return self

    def append(self, unit: pipeline.InputUnit) -> None:
        self.units.append(unit)

    def close(self) -> None: ...


def picture() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "PNG")
    return file.getvalue()


class World:
    def __init__(self) -> None:
        self.front, self.told = FakeFront(), list[realtime.EngineOutput]()
        engine = PipelineDuplexEngine(
            self.front,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            model="tiny",
            default_recording=None,
            max_voice_s=10.0,
            max_positions=1000,
            speaks=False,
            executor=InlineExecutor(),
        )
        self.session = PipelineSession(engine, "s", replace(DEFAULT_SESSION, modalities=("text",)), self.told.append)
        self.session.begin()

    def second(self, number: int, unit_s: float) -> int:
        """A unit with a picture that takes *unit_s*; returns how many pictures the model was shown."""
        samples = np.zeros(16_000, np.float32)
        self.session.send(realtime.Append(realtime.Unit(epoch=0, number=number, samples=samples, frames=(picture(),))))
        self.front.deliver(
            pipeline.UnitFinished(
                epoch=0,
                number=number,
                is_listen=True,
                end_of_turn=False,
                num_input_tokens=11,
                num_text_tokens=0,
                num_codec_frames=0,
                context_tokens=20,
                has_rebuilt_talker=False,
                decision_s=0.0,
                text_s=None,
                audio_s=None,
                thinker_s=0.0,
                talker_s=0.0,
                code2wav_s=0.0,
                unit_s=unit_s,
                late_s=max(0.0, unit_s - 1.0),
            )
        )
        return len(self.front.units[-1].frames)

    @property
    def warnings(self) -> list[realtime.ContextNotice]:
        return [output for output in self.told if isinstance(output, realtime.ContextNotice)]


def test_a_session_in_time_is_told_nothing_and_shown_everything() -> None:
    world = World()
    assert [world.second(number, 0.9) for number in range(5)] == [1] * 5
    assert world.warnings == []


def test_a_session_that_falls_behind_says_so_and_leaves_its_pictures_out_until_it_has_caught_up() -> None:
    world = World()
    shown = [world.second(number, unit_s) for number, unit_s in enumerate((1.5, 1.6, 0.4, 0.4, 0.4))]
    assert shown == [1, 1, 0, 0, 1]
    (warning,) = world.warnings
    assert (warning.code, warning.details) == ("falling_behind", {"lag_ms": 1100, "frames_dropped": 0})
    assert all(len(unit.samples) == 16_000 for unit in world.front.units)


def test_the_warning_comes_before_the_end_of_the_unit_that_caused_it() -> None:
    world = World()
    world.second(0, 3.0)
    assert [type(output) for output in world.told] == [realtime.ContextNotice, realtime.UnitDone]
