"""Units of many audio streams in one launch against the encoder's own step, stream by stream."""

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from antiphon.audio.mel import REDUNDANCY_FRAMES, StreamingMel, UnitSamples
from antiphon.config.checkpoint_files import shipped_model_config
from antiphon.core.errors import CapacityError, MediaError, StateError
from antiphon.engine.audio_messages import AudioStep
from antiphon.engine.audio_units import audio_slot_bytes, max_frames
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.settings import ThinkerSettings
from antiphon.engine.thinker_audio_streams import ThinkerAudioStreams
from antiphon.models.thinker.audio_encoder import AudioStreamState
from antiphon.models.thinker.thinker import Thinker

Streams = ThinkerAudioStreams[AudioStreamState]


@pytest.fixture(scope="module")
def thinker() -> Thinker:
    """Positions for six units, so that streams start afresh."""
    real = shipped_model_config()
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_layers": 2, "num_heads": 4}
    config = replace(
        real,
        vocab_size=40,
        num_queries=4,
        llm=replace(real.llm, **sizes, num_kv_heads=2, head_dim=8),
        vision=replace(real.vision, hidden_size=16, intermediate_size=24, num_layers=1, num_heads=2, table_side=8),
        audio=replace(real.audio, **sizes, max_positions=320),
    )
    torch.manual_seed(1)
    model = Thinker(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model.eval().requires_grad_(False)


@pytest.fixture
def make(thinker: Thinker) -> Callable[..., Streams]:
    def make(**switches: object) -> Streams:
        settings = replace(ThinkerSettings(num_audio_streams=4), **switches)  # type: ignore[arg-type]
        stream = DeviceStream(torch.device("cpu"))
        return ThinkerAudioStreams(thinker, settings, dtype=torch.float32, counters=Counters(), stream=stream)

    return make


class Speaker:
    """A live microphone, and what the slow twin hears of it."""

    def __init__(self, thinker: Thinker, name: str, seed: int) -> None:
        self.thinker, self.name = thinker, name
        self.chance = np.random.default_rng(seed)
        self.begin()

    def begin(self) -> None:
        self.samples, self.state = UnitSamples(), self.thinker.new_audio_stream()
        self.mel = StreamingMel(redundancy_frames=REDUNDANCY_FRAMES)

    def step(self) -> tuple[AudioStep, torch.Tensor]:
        """The next unit, and the rows that are wanted for it."""
        self.samples.append(self.chance.normal(0, 0.1, 16_000).astype(np.float32))
        samples = self.samples.take()
        assert samples is not None
        chunk = self.mel.push(samples)
        mel = torch.from_numpy(chunk.mel)
        step = AudioStep(stream_id=self.name, mel=mel, trim_front=chunk.trim_front, trim_end=chunk.trim_end)
        wanted = self.thinker.encode_audio_step(mel, self.state, trim_front=chunk.trim_front, trim_end=chunk.trim_end)
        return step, wanted


def expect(streams: Streams, speakers: list[Speaker]) -> None:
    steps, wanted = zip(*(speaker.step() for speaker in speakers), strict=True)
    came = streams.step(steps)
    assert came.ready.is_done()
    for rows, rows_wanted in zip(came.rows, wanted, strict=True):
        assert rows.shape == (10, 32)
        torch.testing.assert_close(rows, rows_wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("use_audio_batch", [True, False])
def test_streams_that_come_and_go_hear_what_each_hears_alone(
    thinker: Thinker, make: Callable[..., Streams], use_audio_batch: bool
) -> None:
    chance, streams, live = random.Random(2), make(use_audio_batch=use_audio_batch), list[Speaker]()
    for turn in range(40):
        if len(live) < 4 and chance.random() < 0.4:
            live.append(Speaker(thinker, f"s{turn}", turn))
            streams.open(f"s{turn}")
        if live and chance.random() < 0.1:
            streams.close(live.pop(chance.randrange(len(live))).name)
        if live and chance.random() < 0.1:
            live[0].begin()
            streams.reset(live[0].name)
        speakers = chance.sample(live, chance.randint(0, len(live)))
        if speakers:
            expect(streams, speakers)
    assert (streams._counters.used["audio_stream_batch"] > 0) == use_audio_batch


def test_a_stream_starts_afresh_when_its_positions_run_out(thinker: Thinker, make: Callable[..., Streams]) -> None:
    streams, speaker = make(), Speaker(thinker, "a", 3)
    streams.open("a")
    lengths = []
    for _ in range(14):
        expect(streams, [speaker])
        lengths.append(len(speaker.state))
    assert max(lengths) == 300 == max_frames(thinker.config.audio)
    assert lengths.count(50) == 3


def test_more_streams_than_slots_are_refused_and_a_closed_one_makes_room(make: Callable[..., Streams]) -> None:
    streams = make()
    for index in range(4):
        streams.open(f"s{index}")
    with pytest.raises(CapacityError, match="all 4 are taken; late must wait"):
        streams.open("late")
    streams.close("s2")
    streams.close("s2")
    streams.open("late")
    assert streams.num_free == 0
    with pytest.raises(StateError, match="open already"):
        streams.open("late")
    with pytest.raises(CapacityError):
        make(num_audio_streams=0).open("a")


def test_a_unit_that_cannot_be_one_is_refused_and_changes_nothing(
    thinker: Thinker, make: Callable[..., Streams]
) -> None:
    streams, speaker = make(), Speaker(thinker, "a", 3)
    streams.open("a")
    first, wanted = speaker.step()
    later, _ = speaker.step()
    for steps, error, message in (
        ([first, first], StateError, "two units of one stream"),
        ([replace(first, stream_id="b")], StateError, "no audio stream b"),
        ([later], MediaError, "a first unit has \\(80, 102\\)"),
        ([replace(first, mel=first.mel[:, :100])], MediaError, "a chunk of shape \\(80, 100\\)"),
        ([replace(first, trim_end=0)], MediaError, "trimmed by 0 and 0"),
    ):
        with pytest.raises(error, match=message):
            streams.step(steps)
    torch.testing.assert_close(streams.step([first]).rows[0], wanted, atol=1e-5, rtol=1e-4)
    with pytest.raises(MediaError, match="a later unit"):
        streams.step([first])


def test_a_slot_of_the_real_model_takes_142_megabytes() -> None:
    audio = shipped_model_config().audio
    assert round(audio_slot_bytes(audio, 2) / 1e6, 1) == 142.5
