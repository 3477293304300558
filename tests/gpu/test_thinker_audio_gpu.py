"""On a GPU: audio units of many streams in one captured launch against the encoder's own step, and what they cost."""

import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from antiphon.audio.mel import REDUNDANCY_FRAMES, StreamingMel, UnitSamples
from antiphon.config.checkpoint_files import shipped_model_config
from antiphon.engine.audio_messages import AudioStep
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.settings import ThinkerSettings
from antiphon.engine.thinker_audio_streams import ThinkerAudioStreams
from antiphon.models.dummy import dummy_value
from antiphon.models.placing import assign, build_empty, finish
from antiphon.models.thinker.audio_encoder import AudioStreamState
from antiphon.models.thinker.thinker import Thinker

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),
]

Streams = ThinkerAudioStreams[AudioStreamState]


def make_thinker(dtype: torch.dtype, *, is_real: bool) -> Thinker:
    """A language model of no use, and an encoder of the real or of a small size."""
    real = shipped_model_config()
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_layers": 1, "num_heads": 2}
    audio = real.audio if is_real else replace(real.audio, **sizes, max_positions=320)
    llm = replace(real.llm, num_layers=1) if is_real else replace(real.llm, **sizes, num_kv_heads=2, head_dim=32)
    config = replace(
        real, vocab_size=40, num_queries=4, llm=llm, vision=replace(real.vision, **sizes, table_side=8), audio=audio
    )
    if not is_real:
        config = replace(config, llm=replace(config.llm, hidden_size=128))
    device = torch.device("cuda")
    model = build_empty(lambda: Thinker(config))
    generator = torch.Generator(device).manual_seed(0)
    for name, empty in list(model.named_parameters()):
        assign(model, name, dummy_value(name, tuple(empty.shape), device, dtype, generator))
    return finish(model, device)


def make_streams(thinker: Thinker, dtype: torch.dtype, **settings: object) -> tuple[Streams, Counters]:
    counters, stream = Counters(), DeviceStream(torch.device("cuda"))
    base = ThinkerSettings(num_audio_streams=8, graph_batches=(1, 2, 4, 8))
    streams = Streams(
        thinker,
        replace(base, **settings),  # type: ignore[arg-type]
        dtype=dtype,
        counters=counters,
        stream=stream,
    )
    streams.warm_up(lambda text: None)
    return streams, counters


class Microphone:
    def __init__(self, name: str, seed: int) -> None:
        self.name, self.chance = name, np.random.default_rng(seed)
        self.samples, self.mel = UnitSamples(), StreamingMel(redundancy_frames=REDUNDANCY_FRAMES)

    def step(self) -> AudioStep:
        self.samples.append(self.chance.normal(0, 0.1, 16_000).astype(np.float32))
        samples = self.samples.take()
        assert samples is not None
        chunk = self.mel.push(samples)
        return AudioStep(
            stream_id=self.name,
            mel=torch.from_numpy(chunk.mel),
            trim_front=chunk.trim_front,
            trim_end=chunk.trim_end,
        )


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 5e-2)])
@pytest.mark.parametrize("switch", ["use_audio_batch", "use_graphs", "use_triton"])
def test_a_switched_off_optimisation_hears_the_same(dtype: torch.dtype, tolerance: float, switch: str) -> None:
    thinker = make_thinker(dtype, is_real=False)
    fast, counters = make_streams(thinker, dtype)
    slow, _ = make_streams(thinker, dtype, **{switch: False})
    microphones = [Microphone(f"s{index}", index) for index in range(7)]
    for microphone in microphones:
        fast.open(microphone.name)
        slow.open(microphone.name)
    for turn in range(9):  # past the point where a stream starts afresh
        steps = [microphone.step() for microphone in microphones[turn % 3 :: 1 + turn % 2]]
        came, wanted = fast.step(steps), slow.step(steps)
        came.ready.wait()
        wanted.ready.wait()
        for rows, rows_wanted in zip(came.rows, wanted.rows, strict=True):
            torch.testing.assert_close(rows, rows_wanted, atol=tolerance, rtol=tolerance)
    assert counters.used["audio_stream_graph"] > 0
    assert not counters.fell_back


def test_units_of_64_streams_fit_into_a_fraction_of_their_second(capsys: pytest.CaptureFixture[str]) -> None:
    dtype = torch.bfloat16
    thinker = make_thinker(dtype, is_real=True)
    streams, counters = make_streams(thinker, dtype, num_audio_streams=64, graph_batches=(1, 4, 16, 64))
    slow, _ = make_streams(thinker, dtype, num_audio_streams=2, use_audio_batch=False)
    microphones = [Microphone(f"s{index}", index) for index in range(2)]
    for microphone in microphones:
        slow.open(microphone.name)
    for index in range(64):
        streams.open(f"s{index}")
    for turn in range(3):
        steps = [microphone.step() for microphone in microphones]
        for step, rows in zip(steps, slow.step(steps).rows, strict=True):
            came = streams.step([step])
            came.ready.wait()
            error = float((came.rows[0].float() - rows.float()).norm() / rows.float().norm())
            assert error < 0.03, turn
    later = steps[0]
    first = Microphone("x", 1).step()
    for index in range(2, 64):
        streams.step([replace(first, stream_id=f"s{index}")])
    report = []
    for num_streams in (1, 4, 16, 64):
        batch = [replace(later, stream_id=f"s{index}") for index in range(num_streams)]
        times = []
        for _ in range(24 if num_streams == 64 else 2):
            start = time.perf_counter()
            streams.step(batch).ready.wait()
            times.append(1e3 * (time.perf_counter() - start))
        report.append(f"{num_streams} streams: {times[1]:.2f} … {times[-1]:.2f} ms")
    assert not counters.fell_back
    with capsys.disabled():
        sys.stdout.write("\n" + "; ".join(report) + "\n")
    assert times[-1] < 60.0
