"""The whole engine at real size with random weights: one worker, three stages, many requests at once.

    python benchmarks/engine.py --json engine.json

Loads `--load-format dummy`, warms everything up as `antiphon serve` does, and runs closed loops of requests of one
length: for each hand-off, reply length and concurrency it prints text TTFT, TPOT, time to first audio, RTF, and seconds
of audio made per second. Every prompt starts differently, so none is found in the prefix cache. Then the optimisation
counters. Needs a CUDA device, or `--model tiny --device cpu` to try it.

Times are measured in this process from `submit` to the event, prompt features included.
"""

import argparse
import json
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from zlib import crc32

import numpy as np
import torch

from antiphon.audio.voice import VoiceFeatures
from antiphon.config.load import load_deploy
from antiphon.core.handoff import Handoff
from antiphon.core.sampling import DEFAULT_STAGE_PARAMS, SamplingParams
from antiphon.pipeline.build import build_omni_model
from antiphon.pipeline.events import AudioChunk, Failed, Finished, TextDelta
from antiphon.pipeline.local_engine import LocalEngine
from antiphon.pipeline.request import GenerationRequest
from antiphon.pipeline.voice_book import PreparedVoice, prepared
from antiphon.prompt.chat_prompt import ChatPrompt, build_chat_prompt
from antiphon.prompt.messages import Message, TextPart

SAMPLE_RATE_HZ = 24_000
VOICE_CODES = 150  # 6 s
CODES_PER_TOKEN = 310 / 32  # as a reply of 32 tokens and 310 codes, with which vLLM-Omni was measured


@dataclass(frozen=True)
class Run:
    """What one request took, in seconds."""

    first_text_s: float
    last_text_s: float
    num_text: int
    first_audio_s: float
    end_s: float
    audio_s: float


def random_voice() -> PreparedVoice:
    random = np.random.default_rng(0)
    return prepared(
        VoiceFeatures(
            codes=random.integers(0, 6561, VOICE_CODES),
            xvector=random.standard_normal(192, dtype=np.float32),
            mel=random.standard_normal((2 * VOICE_CODES, 80), dtype=np.float32) - 6,
        )
    )


def make_request(
    name: str, prompt: ChatPrompt, voice: PreparedVoice, num_tokens: int, handoff: Handoff
) -> GenerationRequest:
    num_codes = int(num_tokens * CODES_PER_TOKEN)
    thinker = SamplingParams(temperature=0.0, max_tokens=num_tokens, min_tokens=num_tokens, ignore_eos=True)
    talker = replace(
        DEFAULT_STAGE_PARAMS[1],
        min_tokens=num_codes if handoff is Handoff.SPAN else 0,
        max_tokens=num_codes,
        seed=crc32(name.encode()),  # the same in every process
    )
    return GenerationRequest(
        request_id=name,
        prompt=prompt,
        sampling=(thinker, talker, DEFAULT_STAGE_PARAMS[2]),
        voice=voice,
        handoff=handoff,
    )


def run_one(engine: LocalEngine, request: GenerationRequest) -> Run:
    start_s = perf_counter()
    texts: list[float] = []
    audios: list[float] = []
    num_samples = num_tokens = 0
    for event in engine.submit(request):
        now_s = perf_counter() - start_s
        if isinstance(event, TextDelta):
            texts.append(now_s)
        elif isinstance(event, AudioChunk):
            audios.append(now_s)
            num_samples += len(event.samples)
        elif isinstance(event, Finished):
            num_tokens = len(event.token_ids)
        elif isinstance(event, Failed):
            raise event.error
    return Run(
        first_text_s=texts[0],
        last_text_s=texts[-1],
        num_text=num_tokens,
        first_audio_s=audios[0],
        end_s=audios[-1],
        audio_s=num_samples / SAMPLE_RATE_HZ,
    )


def run_loop(engine: LocalEngine, requests: list[GenerationRequest], concurrency: int) -> tuple[list[Run], float]:
    """All *requests*, *concurrency* at a time, and the seconds they took together."""
    waiting, lock, runs = list(requests), threading.Lock(), []

    def work() -> None:
        while True:
            with lock:
                if not waiting:
                    return
                request = waiting.pop()
            run = run_one(engine, request)
            with lock:
                runs.append(run)

    start_s = perf_counter()
    workers = [threading.Thread(target=work) for _ in range(concurrency)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return runs, perf_counter() - start_s


def figures_of(runs: list[Run], wall_s: float) -> dict[str, float]:
    return {
        "requests": len(runs),
        "audio of one, s": median(run.audio_s for run in runs),
        "TTFT, ms": 1e3 * median(run.first_text_s for run in runs),
        "TPOT, ms": 1e3 * median((run.last_text_s - run.first_text_s) / max(run.num_text - 1, 1) for run in runs),
        "first audio, ms": 1e3 * median(run.first_audio_s for run in runs),
        "first audio, worst, ms": 1e3 * max(run.first_audio_s for run in runs),
        "RTF": median(run.end_s / run.audio_s for run in runs),
        "audio s per s": sum(run.audio_s for run in runs) / wall_s,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", default="dummy", help="`dummy` (real sizes), `tiny`, or the folder of a checkpoint")
    parser.add_argument("--deploy-config", default="minicpmo_4_5.yaml")
    parser.add_argument("--stage-overrides", default="")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--tokens", type=int, nargs="+", default=[15, 32], help="reply lengths")
    parser.add_argument("--rounds", type=int, default=3, help="requests per unit of concurrency")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    start_s = perf_counter()
    is_dummy = arguments.model == "dummy"
    model = build_omni_model(arguments.model, device=device, load_format="dummy" if is_dummy else "auto")
    config = load_deploy(arguments.deploy_config, platform=device.type, stage_overrides=arguments.stage_overrides)
    results: dict[str, dict[str, float]] = {}
    with LocalEngine(model, config) as engine:
        loaded_s = perf_counter() - start_s
        engine.start()
        results["start"] = {"loaded, s": loaded_s, "ready, s": perf_counter() - start_s}
        if device.type == "cuda":
            results["start"]["memory, GB"] = (torch.cuda.mem_get_info()[1] - torch.cuda.mem_get_info()[0]) / 1e9
        print("start", {name: round(value, 2) for name, value in results["start"].items()}, flush=True)
        voice = random_voice()

        def prompt_of(name: str) -> ChatPrompt:
            text = f"{name:<32}: please explain to a curious listener how tides are made, and why there are two a day."
            message = Message("user", (TextPart(text),))
            return build_chat_prompt([message], model.tokenizer, model.image_config, join="", use_tts_template=True)

        print(f"prompt: {len(prompt_of('').ids)} tokens")
        for handoff in Handoff:
            for num_tokens in arguments.tokens:
                for concurrency in arguments.concurrency:
                    for name, rounds in (("warm", 1), ("run", arguments.rounds)):
                        requests = [
                            make_request(request_id, prompt_of(request_id), voice, num_tokens, handoff)
                            for request_id in (
                                f"{index}-{name}-{concurrency}-{num_tokens}-{handoff.value}"
                                for index in range(rounds * concurrency)
                            )
                        ]
                        runs, wall_s = run_loop(engine, requests, concurrency)
                    key = f"{handoff.value}, {num_tokens} tokens, concurrency {concurrency}"
                    results[key] = figures_of(runs, wall_s)
                    print(key, {name: round(value, 3) for name, value in results[key].items()}, flush=True)
        results["counters"] = dict(engine.snapshot())
        print("counters", {name: value for name, value in results["counters"].items() if value})
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
