"""The vocoding engine against the eager vocoder: the same samples whatever the batching."""

import random
from collections.abc import Callable, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from antiphon.audio.voice import VoiceFeatures
from antiphon.core.errors import CapacityError, MediaError, StateError
from antiphon.engine.code2wav_engine import Code2WavEngine
from antiphon.engine.code2wav_streams import SpeechJob, SpeechOutput
from antiphon.engine.code_buffer import CodeBuffer, CodeChunk
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.settings import Code2WavSettings
from antiphon.models.code2wav.batched.batched import BatchedCode2Wav
from antiphon.models.code2wav.cfm import make_noise_table
from antiphon.models.code2wav.code2wav import Code2Wav
from antiphon.models.code2wav.counter_source import CounterSourceNoise
from antiphon.models.code2wav.flow import VoicePrompt
from antiphon.pipeline.build import build_omni_model
from antiphon.pipeline.code2wav_engine import build_code2wav_engine
from antiphon.pipeline.eager.vocoder import Vocoder, voice_prompt

CPU = torch.device("cpu")
STEPS = 2
VOICE_CODES = {"shortest": 4, "short": 22, "tail only": 50, "usual": 75, "long": 130}
SETTINGS = Code2WavSettings(
    num_slots=16, num_steps=STEPS, short_prompt_frames=200, max_prompt_frames=300, num_long_slots=3
)
TOLERANCE = 1e-4


@dataclass
class Bench:
    """One model, its voices, and both ways to voice them."""

    code2wav: Code2Wav
    vocoders: dict[str, Vocoder]
    noise: torch.Tensor

    @property
    def num_ids(self) -> int:
        return self.code2wav.flow.config.num_codec_ids

    def engine(self, settings: Code2WavSettings = SETTINGS, clock: Callable[[], float] = lambda: 0.0) -> Code2WavEngine:
        engine = build_code2wav_engine(
            self.code2wav,
            settings,
            device=CPU,
            counters=Counters(),
            stream=DeviceStream(CPU),
            noise_table=self.noise,
            clock=clock,
        )
        for name, vocoder in self.vocoders.items():
            if vocoder.voice.mel.shape[2] <= engine.model.capacities[-1].max_prompt_frames:
                engine.add_voice(name, vocoder.voice)
        return engine

    def vocoder(self, voice: str, seed: int) -> Vocoder:
        """The eager twin of a stream; the voice's template is shared."""
        vocoder = copy(self.vocoders[voice])
        vocoder.source_noise = CounterSourceNoise(seed)
        return vocoder

    @torch.inference_mode()
    def expected(self, voice: str, seed: int, chunks: Sequence[CodeChunk]) -> NDArray[np.float32]:
        vocoder = self.vocoder(voice, seed)
        state = vocoder.template.open()
        pieces = []
        for chunk in chunks:
            samples, state = self.code2wav.chunk(
                vocoder.ids(chunk.codes),
                vocoder.template,
                state,
                self.noise,
                vocoder.source_noise,
                is_last=chunk.is_last,
            )
            pieces.append(samples[0])
            if chunk.is_last:
                state = vocoder.template.open()
        return torch.cat(pieces).numpy()


@pytest.fixture(scope="module")
def bench(tiny_checkpoint: Path) -> Bench:
    """The tiny model with its pitch lowered tenfold, so that 1e-4 can be asked for.

    The excitation's phase is 2π · 480 · Σ f0 · h / 24,000: at 160 Hz one unit in the last place of f0 turns the ninth
    harmonic by 1e-3 after a second, and so 1e-7 more mel changes the eager vocoder's own samples by 2e-4.
    """
    code2wav = build_omni_model(tiny_checkpoint, device=CPU).code2wav
    assert code2wav is not None
    code2wav = deepcopy(code2wav)
    with torch.no_grad():
        for parameter in code2wav.hift.f0_predictor.classifier.parameters():
            parameter.mul_(0.1)
    noise = make_noise_table(code2wav.flow.config.num_mel_bins, num_frames=1000)
    vocoders = {
        name: Vocoder(code2wav, voice_features(code2wav, num_codes), num_steps=STEPS, noise=noise)
        for name, num_codes in VOICE_CODES.items()
    }
    for vocoder in vocoders.values():
        assert vocoder.template.flow.num_prompt_frames
    return Bench(code2wav, vocoders, noise)


def voice_features(code2wav: Code2Wav, num_codes: int) -> VoiceFeatures:
    draw = np.random.default_rng(num_codes)
    config = code2wav.flow.config
    return VoiceFeatures(
        codes=draw.integers(0, config.num_codec_ids, num_codes),
        xvector=draw.standard_normal(config.speaker_size).astype(np.float32),
        mel=(draw.standard_normal((2 * num_codes, config.num_mel_bins)) - 6).astype(np.float32),
    )


def draw_codes(rng: random.Random, bench: Bench, count: int) -> tuple[int, ...]:
    return tuple(rng.randrange(bench.num_ids) for _ in range(count))


def draw_turn(rng: random.Random, bench: Bench, num_units: int, num_tail: int) -> list[CodeChunk]:
    """A turn's chunks as a buffer gives them out; the first unit may be short."""
    buffer, chunks = CodeBuffer(), []
    for unit in range(num_units):
        count = rng.choice((6, 15, 25)) if unit == 0 else 25
        chunks += buffer.push(draw_codes(rng, bench, count), first=unit == 0, end_of_turn=False)
    return chunks + buffer.push(draw_codes(rng, bench, num_tail), first=num_units == 0, end_of_turn=True)


def drain(engine: Code2WavEngine) -> list[SpeechOutput]:
    outputs = engine.collect()
    while engine.launch():
        outputs += engine.collect()
    return outputs


def joined(outputs: Sequence[SpeechOutput], stream_id: str) -> NDArray[np.float32]:
    return np.concatenate([output.samples for output in outputs if output.stream_id == stream_id])


def assert_close(actual: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE)


def speak(
    engine: Code2WavEngine, stream_id: str, voice: str, chunks: Sequence[CodeChunk], seed: int = 0, due_s: float = 0.0
) -> None:
    engine.admit(SpeechJob(stream_id, 1, voice, seed, due_s))
    for chunk in chunks:
        engine.push(stream_id, chunk.codes, is_last=chunk.is_last)
    engine.close_input(stream_id)


@pytest.mark.parametrize("num_streams", [1, 2, 5, 16])
def test_streams_that_join_and_leave_at_random_sound_as_if_alone(bench: Bench, num_streams: int) -> None:
    rng = random.Random(num_streams)
    engine = bench.engine()
    voices, seeds, turns, waiting = {}, {}, {}, {}
    for index in range(num_streams):
        name = f"s{index}"
        voices[name], seeds[name] = rng.choice(list(VOICE_CODES)), rng.randrange(2**40)
        turns[name] = draw_turn(rng, bench, rng.choice((1, 2, 7)) if index else 7, rng.randrange(25))
        waiting[name] = list(turns[name])
    outputs: list[SpeechOutput] = []
    to_open = list(voices)
    while to_open or engine.snapshot()["streams"]:
        if to_open and rng.random() < 0.7:
            name = to_open.pop()
            engine.admit(SpeechJob(name, 3, voices[name], seeds[name], rng.random()))
        for name in rng.sample(sorted(waiting), len(waiting)):
            if name not in to_open and waiting[name] and rng.random() < 0.8:
                chunk = waiting[name].pop(0)
                engine.push(name, chunk.codes, is_last=chunk.is_last)
                if not waiting[name]:
                    engine.close_input(name)
        engine.launch()
        outputs += engine.collect()
    for name in voices:
        assert_close(joined(outputs, name), bench.expected(voices[name], seeds[name], turns[name]))
        own = [output for output in outputs if output.stream_id == name]
        assert [output.finish_reason for output in own if output.finish_reason] == ["stop"]
        assert own[-1].is_last
        assert {output.epoch for output in own} == {3}
    assert engine.snapshot()["slots_lent"] == 0


def test_a_session_goes_on_with_the_next_turn_as_the_eager_stream_does(bench: Bench) -> None:
    rng = random.Random(5)
    engine, stream, buffer = bench.engine(), bench.vocoder("usual", 9).stream(), CodeBuffer()
    engine.admit(SpeechJob("s", 1, "usual", 9, 0.0))
    for _ in range(2):
        for unit in range(7):
            is_last = unit == 6
            codes = draw_codes(rng, bench, 25 if unit else 9)
            for chunk in buffer.push(codes, first=unit == 0, end_of_turn=is_last):
                engine.push("s", chunk.codes, is_last=chunk.is_last)
            outputs = drain(engine)
            assert_close(joined(outputs, "s"), stream.push(codes, first=unit == 0, end_of_turn=is_last).numpy())
            assert outputs[-1].is_last == is_last
    assert engine.snapshot()["slots_lent"] == 1
    engine.close_input("s")
    (end,) = engine.collect()
    assert (end.finish_reason, len(end.samples)) == ("stop", 0)


def test_last_chunks_of_every_length_are_exact(bench: Bench) -> None:
    rng = random.Random(6)
    engine = bench.engine()
    turns = {
        f"s{length}": [
            CodeChunk(draw_codes(rng, bench, 28), is_last=False),
            CodeChunk(draw_codes(rng, bench, length), is_last=True),
        ]
        for length in range(1, 29)
    }
    for name, chunks in turns.items():
        speak(engine, name, "short", chunks)
    outputs = drain(engine)
    for name, chunks in turns.items():
        assert_close(joined(outputs, name), bench.expected("short", 0, chunks))


@pytest.mark.parametrize("length", [1, 3, 4, 25, 28])
def test_a_turn_may_be_one_last_chunk(bench: Bench, length: int) -> None:
    chunks = [CodeChunk(draw_codes(random.Random(length), bench, length), is_last=True)]
    engine = bench.engine()
    speak(engine, "s", "tail only", chunks, seed=4)
    assert_close(joined(drain(engine), "s"), bench.expected("tail only", 4, chunks))


def test_voices_of_different_lengths_share_one_launch(bench: Bench) -> None:
    rng = random.Random(7)
    engine = bench.engine()
    turns = {voice: draw_turn(rng, bench, 6, 4) for voice in ("shortest", "short", "tail only", "usual")}
    for voice, chunks in turns.items():
        speak(engine, voice, voice, chunks, seed=2)
    assert engine.launch()
    outputs = engine.collect()
    assert sorted(output.stream_id for output in outputs) == sorted(turns)
    outputs += drain(engine)
    for voice, chunks in turns.items():
        assert_close(joined(outputs, voice), bench.expected(voice, 2, chunks))


def test_a_seed_means_the_same_noise_in_every_batch_and_another_seed_another(bench: Bench) -> None:
    chunks = draw_turn(random.Random(8), bench, 2, 3)
    engine = bench.engine()
    for name, seed in (("a", 1), ("b", 2), ("c", 1)):
        speak(engine, name, "short", chunks, seed=seed)
    outputs = drain(engine)
    assert_close(joined(outputs, "a"), joined(outputs, "c"))
    assert np.abs(joined(outputs, "a") - joined(outputs, "b")).max() > 10 * TOLERANCE


def test_what_an_earlier_stream_left_in_a_slot_does_not_matter(bench: Bench) -> None:
    chunks = draw_turn(random.Random(9), bench, 6, 7)
    engine = bench.engine()
    model = engine.model
    assert isinstance(model, BatchedCode2Wav)
    with torch.inference_mode():
        for state in model.states:
            for buffer in (state.token_kv, state.frame_kv):
                buffer[:, : state.capacity.num_slots] = torch.nan
            state.solver_kv[:, :, : state.capacity.num_slots] = torch.nan
            state.solver_conv[:, :, :, : state.capacity.num_slots] = torch.nan
            for buffer in (state.lookahead, state.upsample, state.speaker):
                buffer[: state.capacity.num_slots] = torch.nan
        for buffer in (model.vocoder.mel_past, model.vocoder.source_past, model.vocoder.speech_past):
            buffer[:-1] = torch.nan
    speak(engine, "s", "usual", chunks)
    assert_close(joined(drain(engine), "s"), bench.expected("usual", 0, chunks))


def test_a_poisoned_stream_ends_with_an_error_and_its_neighbour_does_not_hear_it(bench: Bench) -> None:
    chunks = draw_turn(random.Random(10), bench, 5, 7)
    engine = bench.engine()
    speak(engine, "poisoned", "usual", chunks)
    speak(engine, "neighbour", "short", chunks)
    engine.launch()
    outputs = engine.collect()
    model = engine.model
    assert isinstance(model, BatchedCode2Wav)
    with torch.inference_mode():
        model.states[0].solver_conv[:, :, :, 0] = torch.nan  # the first slot is the first stream's
    outputs += drain(engine)
    ends = {output.stream_id: output for output in outputs if output.finish_reason}
    assert (ends["poisoned"].finish_reason, ends["neighbour"].finish_reason) == ("error", "stop")
    assert "not numbers" in (ends["poisoned"].error or "")
    assert_close(joined(outputs, "neighbour"), bench.expected("short", 0, chunks))
    speak(engine, "next", "usual", chunks)
    assert_close(joined(drain(engine), "next"), bench.expected("usual", 0, chunks))


def test_an_aborted_stream_leaves_no_slot_and_its_samples_are_dropped(bench: Bench) -> None:
    engine = bench.engine()
    chunks = draw_turn(random.Random(11), bench, 2, 2)
    speak(engine, "s", "short", chunks)
    engine.launch()
    engine.abort("s")
    outputs = drain(engine)
    assert [(output.finish_reason, len(output.samples)) for output in outputs] == [("abort", 0)]
    snapshot = engine.snapshot()
    assert snapshot["slots_lent"] == snapshot["slots_retired"] == snapshot["streams"] == 0
    engine.abort("s")
    assert engine.collect() == []


def test_ids_without_an_embedding_are_refused_and_nothing_changes(bench: Bench) -> None:
    engine = bench.engine()
    engine.admit(SpeechJob("s", 1, "short", 0, 0.0))
    for wrong in (bench.num_ids, -1):
        with pytest.raises(CapacityError, match=f"codec id {wrong} is not"):
            engine.push("s", (*range(9), wrong), is_last=False)
    assert not engine.launch()


@pytest.mark.parametrize(("length", "is_last"), [(6, False), (29, False), (0, True), (29, True)])
def test_chunks_of_a_wrong_size_are_refused(bench: Bench, length: int, is_last: bool) -> None:
    engine = bench.engine()
    engine.admit(SpeechJob("s", 1, "short", 0, 0.0))
    with pytest.raises(CapacityError, match="codec ids; here"):
        engine.push("s", tuple(range(length)), is_last=is_last)


def test_voices_that_cannot_be_used_are_refused(bench: Bench) -> None:
    engine = bench.engine()
    good = bench.vocoders["short"].voice
    with pytest.raises(MediaError, match="not numbers"):
        engine.add_voice("nan", VoicePrompt(good.codes, good.xvector, good.mel * torch.nan))
    with pytest.raises(CapacityError, match="at most 6"):
        engine.add_voice("longest", voice_prompt(voice_features(bench.code2wav, 151), CPU))
    with pytest.raises(StateError, match="no voice 'nobody'"):
        engine.admit(SpeechJob("s", 1, "nobody", 0, 0.0))


def test_plain_runs_on_a_cpu_are_no_fall_backs(bench: Bench) -> None:
    engine = bench.engine()
    lines: list[str] = []
    engine.warm_up(lines.append)
    speak(engine, "s", "short", draw_turn(random.Random(1), bench, 1, 1))
    drain(engine)
    assert any("flow" in line for line in lines)
    assert not engine.counters.fell_back
