"""Speech made by the Code2Wav engine of fixed codes and fixed noise, and by the eager path as its slow twin."""

import numpy as np
import torch
from numpy.typing import NDArray

from antiphon.audio.voice import VoiceFeatures
from antiphon.engine.code2wav_engine import Code2WavEngine
from antiphon.engine.code2wav_streams import SpeechJob
from antiphon.engine.code_buffer import CHUNK_IDS, LOOKAHEAD_IDS, CodeChunk
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.float32_precision import float32_precision
from antiphon.engine.settings import Code2WavSettings
from antiphon.models.code2wav.cfm import make_noise_table
from antiphon.models.code2wav.counter_source import CounterSourceNoise
from antiphon.offline.gate.subject import code2wav_of, run_dry, say_nothing, stopped_clock
from antiphon.pipeline.code2wav_engine import build_code2wav_engine
from antiphon.pipeline.eager.vocoder import Vocoder, voice_prompt
from antiphon.pipeline.omni_model import OmniModel

Samples = NDArray[np.float32]
VOICE = "gate"
SOURCE_SEED = 5
NOISE_FRAMES = 1000
VOICE_CODES = 50  # 2 s
# Full chunks of each stream, and the ids left for its last one. One runs alone, its last chunk wider than the others'
# since it has no look-ahead to give back; the others share launches.
ALONE = {"alone": (2, 27)}
TOGETHER = {"first": (2, 3), "second": (2, 3), "third": (1, 11)}


def make_voice(model: OmniModel) -> VoiceFeatures:
    """A voice of random features: a gate must not need the front ends."""
    draw, config = np.random.default_rng(3), code2wav_of(model).flow.config
    return VoiceFeatures(
        codes=draw.integers(0, config.num_codec_ids, VOICE_CODES),
        xvector=draw.standard_normal(config.speaker_size, dtype=np.float32),
        mel=draw.standard_normal((2 * VOICE_CODES, config.num_mel_bins), dtype=np.float32) - 6,
    )


def make_turn(model: OmniModel, name: str) -> list[CodeChunk]:
    """A turn's chunks: full ones with their look-ahead, then a last one."""
    num_full, num_tail = {**ALONE, **TOGETHER}[name]
    draw = np.random.default_rng(len(name))
    ids = draw.integers(0, code2wav_of(model).flow.config.num_codec_ids, CHUNK_IDS * num_full + num_tail).tolist()
    chunks = []
    for index in range(num_full):
        start = CHUNK_IDS * index
        chunks.append(CodeChunk(tuple(ids[start : start + CHUNK_IDS + LOOKAHEAD_IDS]), is_last=False))
    return [*chunks, CodeChunk(tuple(ids[CHUNK_IDS * num_full :]), is_last=True)]


def open_engine(model: OmniModel, settings: Code2WavSettings, counters: Counters) -> Code2WavEngine:
    """An engine that is warm and has the voice."""
    code2wav = code2wav_of(model)
    engine = build_code2wav_engine(
        code2wav,
        settings,
        device=model.device,
        counters=counters,
        stream=DeviceStream(model.device),
        noise_table=make_noise_table(code2wav.flow.config.num_mel_bins, num_frames=NOISE_FRAMES),
        clock=stopped_clock,
    )
    engine.warm_up(say_nothing)
    engine.add_voice(VOICE, voice_prompt(make_voice(model), model.device))
    return engine


def voice_streams(engine: Code2WavEngine, model: OmniModel, names: tuple[str, ...]) -> dict[str, Samples]:
    """The streams *names*, run together."""
    pieces: dict[str, list[Samples]] = {name: [] for name in names}
    for name in names:
        engine.admit(SpeechJob(name, 1, VOICE, SOURCE_SEED, 0.0))
        for chunk in make_turn(model, name):
            engine.push(name, chunk.codes, is_last=chunk.is_last)
        engine.close_input(name)

    def collect() -> bool:
        for output in engine.collect():
            pieces[output.stream_id].append(output.samples)
        return bool(engine.snapshot()["streams"])

    run_dry(model.device, engine.launch, collect)
    return {name: np.concatenate(found) for name, found in pieces.items()}


def make_speech(model: OmniModel, settings: Code2WavSettings, counters: Counters) -> dict[str, Samples]:
    """All streams by name."""
    engine = open_engine(model, settings, counters)
    return {**voice_streams(engine, model, tuple(ALONE)), **voice_streams(engine, model, tuple(TOGETHER))}


@torch.inference_mode()
def make_speech_eagerly(model: OmniModel, num_steps: int) -> dict[str, Samples]:
    """The same by the eager path in plain float32, which computes every modulation when it needs it."""
    code2wav = code2wav_of(model)
    noise = make_noise_table(code2wav.flow.config.num_mel_bins, num_frames=NOISE_FRAMES)
    made: dict[str, Samples] = {}
    with float32_precision(tf32=False):
        vocoder = Vocoder(code2wav, make_voice(model), num_steps=num_steps, noise=noise)
        for name in (*ALONE, *TOGETHER):
            state, source, pieces = vocoder.template.open(), CounterSourceNoise(SOURCE_SEED), []
            for chunk in make_turn(model, name):
                ids = vocoder.ids(chunk.codes)
                samples, state = code2wav.chunk(
                    ids, vocoder.template, state, vocoder.noise, source, is_last=chunk.is_last
                )
                pieces.append(samples[0])
            made[name] = torch.cat(pieces).cpu().numpy()
    return made
