"""What a live session costs in GPU memory, stage by stage, at real size.

    python benchmarks/memory.py --json memory.json

For each number of sessions it builds the cache of each stage as a deployment does that holds so many, and asks
the driver what that took: blocks of the Thinker for a context of 8,192 tokens each, Talker slots of 4,096 positions,
and float32 Code2Wav slots. Weights, captured graphs and activations come on top. Needs a CUDA device, torch and numpy.
"""

import argparse
import gc
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter

import torch
from code2wav_chunk import build_model
from talker_step import build_talker

from antiphon.config.checkpoint_files import shipped_model_config
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.paged_cache import PagedCache
from antiphon.engine.settings import Code2WavSettings, TalkerSettings
from antiphon.engine.talker_engine import TalkerEngine
from antiphon.layers.rope import Rope
from antiphon.models.code2wav.cfm import make_noise_table
from antiphon.pipeline.code2wav_engine import build_code2wav_engine

SESSIONS = (1, 4, 16, 32, 64)
CONTEXT, BLOCK = 8192, 16


def cost_of(build: Callable[[], object]) -> float:
    """GB that the driver gives out while *build* runs and its result lives."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.synchronize()
    before = torch.cuda.mem_get_info()[0]
    built = build()
    torch.cuda.synchronize()
    spent = before - torch.cuda.mem_get_info()[0]
    del built
    return spent / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, nargs="+", default=list(SESSIONS))
    parser.add_argument("--json", type=Path, help="write the figures here too")
    arguments = parser.parse_args()
    device = torch.device("cuda")
    talker, code2wav = build_talker(device, torch.bfloat16), build_model(device)
    llm = shipped_model_config().llm

    def thinker_cache(num_sessions: int) -> PagedCache:
        return PagedCache(
            llm,
            num_kv_heads=llm.num_kv_heads,
            num_blocks=num_sessions * CONTEXT // BLOCK,
            block_size=BLOCK,
            num_host_blocks=0,
            rope=Rope(llm.head_dim, llm.rope_theta),
            dtype=torch.bfloat16,
            stream=DeviceStream(device),
        )

    def talker_engine(num_sessions: int) -> TalkerEngine:
        return TalkerEngine(
            talker,
            TalkerSettings(num_slots=num_sessions),
            device=device,
            dtype=torch.bfloat16,
            counters=Counters(),
            stream=DeviceStream(device),
            clock=perf_counter,
        )

    def code2wav_engine(num_sessions: int) -> object:
        return build_code2wav_engine(
            code2wav,
            Code2WavSettings(num_slots=num_sessions, num_long_slots=0, num_steps=10),
            device=device,
            counters=Counters(),
            stream=DeviceStream(device),
            noise_table=make_noise_table(),
            clock=perf_counter,
        )

    stages = {"thinker": thinker_cache, "talker": talker_engine, "code2wav": code2wav_engine}
    figures: dict[str, dict[str, float]] = {name: {} for name in stages}
    print(f"{'sessions':>8} " + " ".join(f"{name + ', GB':>14}" for name in stages))
    for num_sessions in arguments.sessions:
        for name, build in stages.items():
            figures[name][str(num_sessions)] = cost_of(partial(build, num_sessions))
        spent = " ".join(f"{figures[name][str(num_sessions)]:14.2f}" for name in stages)
        print(f"{num_sessions:8} {spent}", flush=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
