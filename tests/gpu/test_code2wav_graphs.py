"""Captured Code2Wav against plain runs and against the eager path, on a CUDA device."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch.nn.functional import layer_norm, scaled_dot_product_attention

from antiphon.config.checkpoint import DiTConfig, FlowConfig, FlowEncoderConfig
from antiphon.engine.code2wav_engine import Code2WavEngine
from antiphon.engine.code2wav_positions import StreamPositions
from antiphon.engine.code2wav_streams import SpeechJob
from antiphon.engine.code_buffer import CodeChunk
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.float32_precision import float32_precision
from antiphon.engine.settings import Code2WavSettings
from antiphon.layers.flow_kernels import load_flow_kernels
from antiphon.layers.flow_rows import FlowPlaces, RowLayout
from antiphon.layers.speech_shapes import FlowCapacity
from antiphon.models.code2wav.batched.solver import BatchedSolver
from antiphon.models.code2wav.batched.state import FlowState
from antiphon.models.code2wav.cfm import make_noise_table
from antiphon.models.code2wav.code2wav import Code2Wav
from antiphon.models.code2wav.config import HiFTConfig
from antiphon.models.code2wav.counter_source import CounterSourceNoise
from antiphon.models.code2wav.flow import VoicePrompt
from antiphon.models.dummy import dummy_value
from antiphon.models.placing import assign, build_empty, finish
from antiphon.pipeline.code2wav_engine import build_code2wav_engine

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

SETTINGS = Code2WavSettings(
    num_slots=4, num_long_slots=1, short_prompt_frames=120, max_prompt_frames=140, graph_batches=(1, 4)
)


def flow_config(size: int, depth: int, num_heads: int) -> FlowConfig:
    return FlowConfig(
        num_codec_ids=6561,
        embedding_size=size,
        num_mel_bins=80,
        speaker_size=192,
        cfg_rate=0.7,
        encoder=FlowEncoderConfig(
            input_size=size,
            output_size=size,
            num_heads=num_heads,
            linear_units=4 * size,
            num_blocks=6,
            num_up_blocks=4,
            up_stride=2,
            lookahead=3,
        ),
        dit=DiTConfig(
            in_channels=320,
            out_channels=80,
            hidden_size=size,
            depth=depth,
            num_heads=num_heads,
            head_dim=64,
            mlp_ratio=4.0,
        ),
    )


FLOWS = {"small": flow_config(64, 2, 2), "real": flow_config(512, 16, 8)}


@pytest.fixture(scope="module", params=["small", "real"])
def code2wav(request: pytest.FixtureRequest) -> Iterator[Code2Wav]:
    device = torch.device("cuda")
    model = build_empty(partial(Code2Wav, FLOWS[request.param], HiFTConfig.real()))
    generator = torch.Generator(device).manual_seed(0)
    for name, empty in list(model.named_parameters()):
        assign(model, name, dummy_value(name, tuple(empty.shape), device, torch.float32, generator))
    yield finish(model, device)
    torch.cuda.empty_cache()


def voice(num_codes: int) -> VoicePrompt:
    draw = np.random.default_rng(num_codes)
    return VoicePrompt(
        torch.from_numpy(draw.integers(0, 6561, (1, num_codes))),
        torch.from_numpy(draw.standard_normal((1, 192)).astype(np.float32)),
        torch.from_numpy(draw.standard_normal((1, 80, 2 * num_codes)).astype(np.float32) - 6),
    )


def turn(seed: int, num_chunks: int, num_tail: int) -> list[CodeChunk]:
    draw = np.random.default_rng(seed)
    lengths = [28] * num_chunks + [num_tail]
    return [
        CodeChunk(tuple(draw.integers(0, 6561, length).tolist()), is_last=index == num_chunks)
        for index, length in enumerate(lengths)
    ]


VOICES = {"a": 30, "b": 60, "long": 70}
STREAMS = {"s0": "a", "s1": "b", "s2": "a", "s3": "long", "s4": "b"}
TURNS = {name: turn(index, 3 + index % 4, 3 + 6 * index) for index, name in enumerate(STREAMS)}


def speak(code2wav: Code2Wav, settings: Code2WavSettings) -> tuple[dict[str, NDArray[np.float32]], Counters]:
    counters, device = Counters(), torch.device("cuda")
    stream = DeviceStream(device)
    engine: Code2WavEngine = build_code2wav_engine(
        code2wav,
        settings,
        device=device,
        counters=counters,
        stream=stream,
        noise_table=make_noise_table(num_frames=1000),
        clock=lambda: 0.0,
    )
    engine.warm_up(lambda _: None)
    for key, num_codes in VOICES.items():
        engine.add_voice(key, voice(num_codes))
    pieces: dict[str, list[NDArray[np.float32]]] = {name: [] for name in STREAMS}
    for name, key in STREAMS.items():
        engine.admit(SpeechJob(name, 1, key, 5, 0.0))
        for chunk in TURNS[name]:
            engine.push(name, chunk.codes, is_last=chunk.is_last)
        engine.close_input(name)
    while engine.snapshot()["streams"]:
        engine.launch()
        for output in engine.collect():
            assert output.finish_reason in (None, "stop"), output.error
            pieces[output.stream_id].append(output.samples)
    return {name: np.concatenate(found) for name, found in pieces.items()}, counters


@torch.inference_mode()
def speak_eagerly(code2wav: Code2Wav, name: str) -> NDArray[np.float32]:
    device = torch.device("cuda")
    noise, prompt = make_noise_table(num_frames=1000).to(device), voice(VOICES[STREAMS[name]])
    with float32_precision(tf32=False):
        template = code2wav.template(
            VoicePrompt(prompt.codes.to(device), prompt.xvector.to(device), prompt.mel.to(device)), noise
        )
        state, source, pieces = template.open(), CounterSourceNoise(5), []
        for chunk in TURNS[name]:
            codes = torch.tensor([chunk.codes], device=device)
            samples, state = code2wav.chunk(codes, template, state, noise, source, is_last=chunk.is_last)
            pieces.append(samples[0])
    found: NDArray[np.float32] = torch.cat(pieces).cpu().numpy()
    return found


def test_captured_launches_sound_as_plain_ones_and_as_the_eager_path(code2wav: Code2Wav) -> None:
    captured, counters = speak(code2wav, SETTINGS)
    plain, _ = speak(code2wav, replace(SETTINGS, use_graphs=False, use_hift_graph=False))
    assert not counters.fell_back
    assert counters.used["cfm_graph"]
    assert counters.used["hift_graph"]
    assert counters.used["cfm_triton"]
    for name in STREAMS:
        np.testing.assert_allclose(captured[name], plain[name], rtol=0, atol=1e-4)
        np.testing.assert_allclose(captured[name], speak_eagerly(code2wav, name), rtol=0, atol=1e-3)


def test_without_kernels_streams_sound_the_same(code2wav: Code2Wav) -> None:
    with_kernels, _ = speak(code2wav, SETTINGS)
    twins, counters = speak(code2wav, replace(SETTINGS, use_triton=False))
    assert not counters.used["cfm_triton"]
    for name in STREAMS:
        np.testing.assert_allclose(with_kernels[name], twins[name], rtol=0, atol=1e-3)


def error(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


@torch.inference_mode()
def test_kernels_solve_as_their_twins(code2wav: Code2Wav) -> None:
    kernels, device, num_steps, width = load_flow_kernels(), torch.device("cuda"), 3, 25
    assert kernels is not None
    capacity = FlowCapacity(max_prompt_frames=120, num_tail_frames=100, max_chunk_codes=28, num_slots=3)
    layout = RowLayout(capacity, width, lookahead=3)
    noise = make_noise_table(num_frames=400).to(device)
    variants = {"exact": (None, False), "kernels": (kernels, False), "tf32": (None, True), "both": (kernels, True)}
    states = {name: FlowState(code2wav.flow, capacity, num_steps) for name in variants}
    for state in states.values():
        generator = torch.Generator(device).manual_seed(3)
        state.speaker.normal_(generator=generator)
        state.solver_conv.normal_(generator=generator)
        state.solver_kv[:, :, :, :, :, :90].normal_(generator=generator)
    for name in ("kernels", "both"):
        states[name].solver_kv[:, :, :, :, :, 90:] = torch.nan
    streams = [StreamPositions(capacity, 90) for _ in range(3)]
    for chunk in range(5):
        host = np.zeros((4, layout.size), np.int64)
        counts = [width, width - 7 * (chunk % 2), width]
        for slot, (stream, count) in enumerate(zip(streams, counts, strict=True)):
            layout.fill(host[slot], 2 - slot, [1] * count, count, stream.advance(count))
        layout.fill(host[3], 3, [0] * (width + 3), width, StreamPositions(capacity, 0).advance(width))
        rows = layout.split(torch.from_numpy(host).to(device))
        mu = torch.randn(4, 2 * width, 80, device=device, generator=torch.Generator(device).manual_seed(chunk))
        mel = {}
        for name, (which, tf32) in variants.items():
            with float32_precision(tf32=tf32):
                solved = BatchedSolver(code2wav.flow.decoder, num_steps, noise, which)(mu, rows, states[name])
            mel[name] = torch.cat([solved[row, : 2 * count] for row, count in enumerate(counts)])
        assert error(mel["kernels"], mel["exact"]) < 1e-5
        assert error(mel["both"], mel["exact"]) < 3 * error(mel["tf32"], mel["exact"]) + 1e-4


@pytest.mark.parametrize("tf32", [False, True])
@pytest.mark.parametrize(
    ("batch", "num_frames", "size"), [(1, 50, 512), (3, 56, 1008), (4, 6, 96), (8, 50, 512), (16, 50, 512)]
)
def test_attention_over_slots_in_place(batch: int, num_frames: int, size: int, tf32: bool) -> None:
    kernels, device = load_flow_kernels(), torch.device("cuda")
    assert kernels is not None
    generator = torch.Generator(device).manual_seed(batch)
    qkv = torch.randn(batch, num_frames, 2, 8, 3, 64, device=device, generator=generator)
    scale, shift = torch.randn(2, 2, 64, device=device, generator=generator)
    cache = torch.randn(batch + 1, 2, 8, size, 2, 64, device=device, generator=generator)
    slots = torch.randperm(batch + 1, device=device, generator=generator)[:batch]
    order = torch.rand(batch, size - 1, device=device, generator=generator).argsort(1)
    seen = torch.zeros(batch, size, dtype=torch.int32, device=device)
    seen.scatter_(1, order[:, : num_frames + size // 2], 1)
    writes = order[:, :num_frames].contiguous()
    cache[slots] = cache[slots].masked_fill(seen[:, None, None, :, None, None] == 0, torch.nan)
    ends = (seen * torch.arange(1, size + 1, dtype=torch.int32, device=device)).amax(1)
    num_new = torch.full((batch,), num_frames, dtype=torch.int32, device=device)
    places = FlowPlaces(slots, writes, seen, ends, num_new)
    normed = layer_norm(qkv[..., :2, :].double(), (64,), eps=1e-5) * scale + shift
    values = qkv[..., 2, :].clone()
    kernels.attention.norm_store(qkv, scale, shift, 1e-5, cache, places)
    mixed = kernels.attention.attend(qkv, cache, places, tf32=tf32)
    for row, slot in enumerate(slots.tolist()):
        written = cache[slot][:, :, writes[row]].permute(2, 0, 1, 3, 4)
        assert error(written[..., 0, :], normed[row, :, :, :, 1]) < 1e-6
        assert torch.equal(written[..., 1, :], values[row])
        keys, kept_values = cache[slot][:, :, seen[row] == 1].double().unbind(3)
        queries = normed[row, :, :, :, 0].permute(1, 2, 0, 3)
        expected = scaled_dot_product_attention(queries, keys, kept_values).permute(2, 0, 1, 3).flatten(2)
        assert error(mixed[row], expected) < (5e-3 if tf32 else 2e-6)


def test_tf32_changes_little(code2wav: Code2Wav) -> None:
    rounded, _ = speak(code2wav, replace(SETTINGS, use_tf32=True))
    exact, _ = speak(code2wav, SETTINGS)
    for name in STREAMS:
        difference = np.sqrt(np.mean((rounded[name] - exact[name]) ** 2))
        assert difference < 0.05 * np.sqrt(np.mean(exact[name] ** 2))
