"""What the eager path costs at real size with random weights: the baseline that the engine is measured against.

    python benchmarks/eager_baseline.py --json eager.json

Loads `--load-format dummy` on the GPU and prints load time, memory, ms per Thinker token, per codec id and per second
of vocoded speech, then one whole reply for either hand-off. Needs only torch and what the prompt side imports.
"""

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import torch

from antiphon.audio.voice import VoiceFeatures
from antiphon.core.sampling import DEFAULT_STAGE_PARAMS, SamplingParams
from antiphon.engine.counter_noise import CounterNoise
from antiphon.engine.talker_sampling import TalkerSampling
from antiphon.pipeline.build import build_omni_model
from antiphon.pipeline.eager.chat import ChatGenerator, ChatRequest, Handoff
from antiphon.pipeline.eager.talker import TalkerSequence
from antiphon.pipeline.eager.thinker import ThinkerSequence
from antiphon.pipeline.eager.vocoder import Vocoder
from antiphon.pipeline.events import AudioChunk, Finished
from antiphon.pipeline.omni_model import OmniModel
from antiphon.prompt.chat_prompt import build_chat_prompt
from antiphon.prompt.messages import Message, TextPart

VOICE_CODES = 150  # 6 s of reference speech
REPLY_TOKENS = 32
SPOKEN_CODES = 310  # 12.4 s


def random_voice(num_codes: int) -> VoiceFeatures:
    random = np.random.default_rng(0)
    return VoiceFeatures(
        codes=random.integers(0, 6561, num_codes),
        xvector=random.standard_normal(192, dtype=np.float32),
        mel=random.standard_normal((2 * num_codes, 80), dtype=np.float32) - 6,
    )


def timed(device: torch.device, run: Callable[[], object]) -> float:
    """Wall seconds of *run*, the device's work included."""
    synchronize(device)
    start_s = perf_counter()
    run()
    synchronize(device)
    return perf_counter() - start_s


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@torch.inference_mode()
def measure_thinker(model: OmniModel, prompt_tokens: int, num_tokens: int) -> dict[str, float]:
    ids = torch.randint(256, (prompt_tokens,)).tolist()
    prefills_s, steps_s = [], []
    for _ in range(3):
        sequence = ThinkerSequence(model.thinker)
        prefills_s.append(timed(model.device, partial(sequence.feed_ids, ids)))
    for token in range(num_tokens):

        def step(token: int = token) -> None:
            hidden = sequence.feed_ids([token])
            int(model.thinker.logits(hidden[-1]).argmax())

        steps_s.append(timed(model.device, step))
    return {
        f"thinker prefill of {prompt_tokens} tokens, ms": 1e3 * median(prefills_s),
        "thinker token, ms": 1e3 * median(steps_s[4:]),
    }


@torch.inference_mode()
def measure_talker(model: OmniModel, num_codes: int) -> dict[str, float]:
    assert model.talker is not None
    talker = model.talker
    condition = talker.embed_text(torch.arange(34, device=model.device))
    seconds = []
    for seed in range(3):
        sequence = TalkerSequence(talker, CounterNoise(seed), sampling=TalkerSampling())
        # The end code stays masked, so every run draws the same number of codes.
        speak = partial(sequence.generate, condition, min_codes=num_codes + 1, max_draws=num_codes + 1)
        seconds.append(timed(model.device, speak))
    return {"codec id, ms": 1e3 * median(seconds) / (num_codes + 1)}


@torch.inference_mode()
def measure_code2wav(model: OmniModel, vocoder: Vocoder, num_chunks: int) -> dict[str, float]:
    template_s = timed(model.device, lambda: vocoder.template)
    stream = vocoder.stream()
    chunks_s = []
    for index in range(num_chunks):
        codes = np.random.default_rng(index).integers(0, 6561, 25).tolist()
        chunks_s.append(timed(model.device, partial(stream.push, codes, first=False, end_of_turn=False)))
    long = np.random.default_rng(7).integers(0, 6561, 250).tolist()
    vocoder.speak(long)
    offline_s = timed(model.device, lambda: vocoder.speak(long))
    return {
        "voice template (first, cold), ms": 1e3 * template_s,
        "vocoded second, streamed, ms": 1e3 * median(chunks_s[3:]),
        "vocoded second, offline 10 s, ms": 1e3 * offline_s / 10,
    }


def measure_reply(model: OmniModel, vocoder: Vocoder, handoff: Handoff) -> dict[str, float]:
    message = Message("user", (TextPart("Please explain how tides are made to a curious listener. " * 10),))
    prompt = build_chat_prompt([message], model.tokenizer, model.image_config, join="", use_tts_template=True)
    _, talker, code2wav = DEFAULT_STAGE_PARAMS
    thinker = SamplingParams(temperature=0.0, max_tokens=REPLY_TOKENS, min_tokens=REPLY_TOKENS, ignore_eos=True)
    talker = SamplingParams(
        temperature=talker.temperature,
        top_p=talker.top_p,
        top_k=talker.top_k,
        repetition_penalty=talker.repetition_penalty,
        min_tokens=SPOKEN_CODES if handoff is Handoff.SPAN else 0,
        max_tokens=SPOKEN_CODES,
        seed=42,
    )
    request = ChatRequest(prompt=prompt, sampling=(thinker, talker, code2wav), vocoder=vocoder, handoff=handoff)
    generator = ChatGenerator(model)
    figures: dict[str, float] = {}
    for _ in range(2):  # the first run pays for kernels that are loaded lazily
        num_samples = 0
        for event in generator.run(request):
            if isinstance(event, AudioChunk):
                num_samples += len(event.samples)
            if isinstance(event, Finished):
                metrics = event.metrics
                assert metrics.rtf is not None
                assert metrics.time_to_first_audio_s is not None
                assert metrics.time_to_first_text_s is not None
                figures = {
                    "prompt tokens": metrics.num_prompt_tokens,
                    "text tokens": metrics.num_text_tokens,
                    "audio, s": num_samples / 24_000,
                    "first text, ms": 1e3 * metrics.time_to_first_text_s,
                    "first audio, ms": 1e3 * metrics.time_to_first_audio_s,
                    "RTF": metrics.rtf,
                }
    return {f"{handoff.value}: {name}": value for name, value in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", default="dummy", help="`dummy` (real sizes), or the folder of a checkpoint")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    start_s = perf_counter()
    is_dummy = arguments.model == "dummy"
    model = build_omni_model(arguments.model, device=device, load_format="dummy" if is_dummy else "auto")
    synchronize(device)
    figures: dict[str, float] = {"load, s": perf_counter() - start_s}
    if device.type == "cuda":
        figures["memory after load, GB"] = torch.cuda.memory_allocated(device) / 1e9
    vocoder = Vocoder(model.code2wav, random_voice(VOICE_CODES)) if model.code2wav is not None else None
    assert vocoder is not None
    measure_thinker(model, 16, 8)
    figures |= measure_thinker(model, 124, 48)
    figures |= measure_talker(model, 100)
    figures |= measure_code2wav(model, vocoder, 12)
    for handoff in Handoff:
        figures |= measure_reply(model, vocoder, handoff)
    if device.type == "cuda":
        figures["memory at the peak, GB"] = torch.cuda.max_memory_allocated(device) / 1e9
    width = max(map(len, figures))
    for name, value in figures.items():
        print(f"{name:<{width}}  {value:10.3f}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
