"""Decisions of the vocoding engine, on a model that makes silence and a device that the test moves by hand."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from antiphon.core.errors import CapacityError, StateError
from antiphon.engine.code2wav_engine import Code2WavEngine
from antiphon.engine.code2wav_runner import slot_classes
from antiphon.engine.code2wav_streams import SpeechJob, SpeechOutput
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream, Fence
from antiphon.engine.settings import Code2WavSettings
from antiphon.layers.flow_rows import RowLayout
from antiphon.layers.speech_shapes import VocoderShape

CODES = tuple(range(28))


@dataclass(frozen=True)
class FakeVoiceState:
    model: "SilentModel"
    num_prompt_frames: int
    num_bytes: int = 100

    def restore(self, class_index: int, slot: int) -> None:
        self.model.restored.append((class_index, slot))


class SilentModel:
    num_codec_ids, lookahead, held_frames, held_samples = 6561, 3, 8, 3840
    max_samples = 64 * 480
    has_kernels = False

    def __init__(self, settings: Code2WavSettings) -> None:
        self.capacities = slot_classes(settings, self.lookahead, 100)
        self.vocoder_inputs = torch.zeros(16, 4, dtype=torch.int64)
        self.restored: list[tuple[int, int]] = []
        self.batches: list[tuple[int, int, int]] = []

    def make_voice(self, codes: Tensor, xvector: Tensor, mel: Tensor) -> FakeVoiceState:
        return FakeVoiceState(self, mel.shape[2])

    def flow_layout(self, class_index: int, width: int) -> RowLayout:
        return RowLayout(self.capacities[class_index], width, self.lookahead)

    def flow_inputs(self, class_index: int, width: int) -> Tensor:
        return torch.zeros(16, self.flow_layout(class_index, width).size, dtype=torch.int64)

    def run_flow(self, class_index: int, width: int, batch: int) -> None:
        self.batches.append((class_index, width, batch))

    def run_vocoder(self, shape: VocoderShape, batch: int) -> None:
        return

    def vocoder_output(self, shape: VocoderShape, batch: int) -> Tensor:
        return torch.zeros(batch, self.num_samples(shape))

    def num_samples(self, shape: VocoderShape) -> int:
        return 480 * (shape.num_frames + (self.held_frames if shape.has_past else 0))

    def next_source_start(self, start: int, num_made: int) -> int:
        return start + num_made - self.held_samples


@dataclass
class ManualFence:
    is_passed: bool = False

    def is_done(self) -> bool:
        return self.is_passed

    def wait(self) -> None:
        raise AssertionError("the engine must not wait")


class ManualStream(DeviceStream):
    """Work is done when the test passes its fence."""

    def __init__(self) -> None:
        super().__init__(torch.device("cpu"))
        self.fences: list[ManualFence] = []

    @contextmanager
    def active(self) -> Iterator[None]:
        yield

    def fence(self) -> Fence:
        self.fences.append(ManualFence())
        return self.fences[-1]


@dataclass(frozen=True)
class FakePrompt:
    num_codes: int
    xvector: Tensor = field(default_factory=lambda: torch.ones(1, 192))

    @property
    def codes(self) -> Tensor:
        return torch.zeros(1, self.num_codes, dtype=torch.int64)

    @property
    def mel(self) -> Tensor:
        return torch.zeros(1, 80, 2 * self.num_codes)


class Desk:
    """An engine with everything that a test moves by hand."""

    def __init__(self, **changes: int) -> None:
        self.settings = Code2WavSettings(**{"num_slots": 2, "num_long_slots": 1, **changes})
        self.model, self.stream, self.now_s = SilentModel(self.settings), ManualStream(), 0.0
        self.engine = Code2WavEngine(
            self.model, self.settings, counters=Counters(), stream=self.stream, clock=lambda: self.now_s
        )
        self.engine.add_voice("short", FakePrompt(50))
        self.engine.add_voice("long", FakePrompt(300))

    def admit(self, name: str, deadline_s: float = 0.0, voice: str = "short") -> None:
        self.engine.admit(SpeechJob(name, 1, voice, 0, deadline_s))

    def finish_launches(self) -> list[SpeechOutput]:
        for fence in self.stream.fences:
            fence.is_passed = True
        return self.engine.collect()

    def voiced(self) -> list[str]:
        """Launch once and say whose samples came out."""
        assert self.engine.launch()
        return [output.stream_id for output in self.finish_launches()]


def test_the_earliest_deadline_gets_the_free_slot() -> None:
    desk = Desk(num_slots=1)
    for name, deadline_s in (("late", 9.0), ("early", 1.0)):
        desk.admit(name, deadline_s)
        desk.engine.push(name, CODES, is_last=False)
    assert desk.voiced() == ["early"]


def test_the_stream_whose_listener_runs_dry_first_goes_first() -> None:
    desk = Desk(graph_batches=(1,))  # type: ignore[arg-type]
    desk.admit("a", 1.0)
    desk.engine.push("a", CODES, is_last=False)
    desk.engine.push("a", CODES, is_last=False)
    assert desk.voiced() == ["a"]
    desk.admit("b", 0.5)  # a has 0.84 s of samples since second 0
    desk.engine.push("b", CODES, is_last=False)
    assert desk.voiced() == ["b"]
    assert desk.voiced() == ["a"]


def test_only_so_many_launches_are_under_way() -> None:
    desk = Desk(max_launches=2)
    desk.admit("a")
    for _ in range(3):
        desk.engine.push("a", CODES, is_last=False)
    assert [desk.engine.launch() for _ in range(3)] == [True, True, False]
    assert len(desk.finish_launches()) == 2
    assert desk.engine.launch()


def test_nothing_is_collected_before_its_fence() -> None:
    desk = Desk()
    desk.admit("a")
    desk.engine.push("a", CODES, is_last=False)
    desk.engine.launch()
    assert desk.engine.collect() == []
    assert [len(output.samples) for output in desk.finish_launches()] == [20_160]


def test_long_voices_use_slots_of_their_own_and_launch_apart() -> None:
    desk = Desk()
    for name, voice in (("a", "short"), ("b", "long"), ("c", "short")):
        desk.admit(name, voice=voice)
        desk.engine.push(name, CODES, is_last=False)
    assert desk.voiced() == ["a", "c"]
    assert desk.voiced() == ["b"]
    assert desk.model.batches == [(0, 25, 2), (1, 25, 1)]


def test_a_last_chunk_wider_than_an_ordinary_one_runs_alone() -> None:
    desk = Desk()
    desk.admit("a")
    desk.admit("b")
    desk.engine.push("a", CODES[:26], is_last=True)
    desk.engine.push("b", CODES, is_last=False)
    assert desk.voiced() == ["a"]
    assert desk.voiced() == ["b"]
    assert [width for _, width, _ in desk.model.batches] == [28, 25]


def test_a_slot_comes_back_only_behind_the_fence_of_its_last_launch() -> None:
    desk = Desk(num_slots=1)
    desk.admit("a")
    desk.engine.push("a", CODES, is_last=False)
    desk.engine.launch()
    desk.engine.abort("a")
    desk.admit("b")
    desk.engine.push("b", CODES, is_last=False)
    assert not desk.engine.launch()
    assert [output.finish_reason for output in desk.finish_launches()] == ["abort"]
    assert desk.voiced() == ["b"]


def test_an_id_can_be_used_again_at_once_and_stale_samples_are_dropped() -> None:
    desk = Desk()
    desk.admit("a")
    desk.engine.push("a", CODES, is_last=False)
    desk.engine.launch()
    desk.engine.abort("a")
    desk.engine.admit(SpeechJob("a", 2, "short", 0, 0.0))
    assert [(output.epoch, output.finish_reason) for output in desk.finish_launches()] == [(1, "abort")]
    desk.engine.push("a", CODES, is_last=False)
    desk.engine.launch()
    assert [output.epoch for output in desk.finish_launches()] == [2]


def test_every_turn_starts_from_the_voice_again() -> None:
    desk = Desk()
    desk.admit("a")
    for is_last in (False, True, False):
        desk.engine.push("a", CODES[:20], is_last=is_last)
        desk.voiced()
    assert desk.model.restored == [(0, 0), (0, 0)]


def test_a_stream_holds_its_voice() -> None:
    desk = Desk(max_voices=2)
    desk.admit("a")
    desk.engine.add_voice("third", FakePrompt(10))
    assert desk.engine.has_voice("short")
    assert not desk.engine.has_voice("long")


def test_too_many_waiting_streams_are_refused() -> None:
    desk = Desk(num_slots=1, num_long_slots=0, max_prompt_frames=600, short_prompt_frames=600, max_waiting_streams=1)
    desk.admit("a")
    desk.admit("b")
    with pytest.raises(CapacityError, match="wait for slots"):
        desk.admit("c")


def test_too_many_waiting_chunks_are_refused() -> None:
    desk = Desk(max_waiting_chunks=1)
    desk.admit("a")
    desk.engine.push("a", CODES, is_last=False)
    with pytest.raises(CapacityError, match="wait already"):
        desk.engine.push("a", CODES, is_last=False)


def test_events_that_the_state_does_not_know_are_refused() -> None:
    desk = Desk()
    desk.admit("a")
    with pytest.raises(StateError, match="open already"):
        desk.admit("a")
    desk.engine.push("a", CODES, is_last=True)
    desk.engine.close_input("a")
    with pytest.raises(StateError, match="not open"):
        desk.engine.push("a", CODES, is_last=False)
    with pytest.raises(StateError, match="not open"):
        desk.engine.close_input("b")


@pytest.mark.parametrize("seed", range(4))
def test_random_operations_share_and_lose_nothing(seed: int) -> None:
    rng = random.Random(seed)
    desk = Desk(num_slots=3)
    open_ids: set[str] = set()
    admitted: list[str] = []
    ends: list[str] = []
    for number in range(400):
        action = rng.random()
        if action < 0.2 and len(open_ids) < 12:
            desk.admit(f"s{number}", rng.random(), rng.choice(("short", "long")))
            open_ids.add(f"s{number}")
            admitted.append(f"s{number}")
        elif action < 0.6 and open_ids:
            name = rng.choice(sorted(open_ids))
            desk.engine.push(name, CODES[: rng.randint(8, 28)], is_last=rng.random() < 0.3)
        elif action < 0.7 and open_ids:
            name = rng.choice(sorted(open_ids))
            open_ids.remove(name)
            rng.choice((desk.engine.close_input, desk.engine.abort))(name)
        elif action < 0.9:
            desk.engine.launch()
        outputs = desk.finish_launches() if rng.random() < 0.3 else desk.engine.collect()
        ends += [output.stream_id for output in outputs if output.finish_reason]
    for name in open_ids:
        desk.engine.abort(name)
    while desk.engine.launch() or desk.engine.snapshot()["launches_under_way"]:
        ends += [output.stream_id for output in desk.finish_launches() if output.finish_reason]
    ends += [output.stream_id for output in desk.engine.collect() if output.finish_reason]
    assert sorted(ends) == sorted(admitted)
    snapshot = desk.engine.snapshot()
    assert snapshot["streams"] == snapshot["slots_lent"] == snapshot["slots_retired"] == 0
    desk.engine.voices.make_room(desk.settings.max_voice_bytes)  # nobody holds a voice any more
