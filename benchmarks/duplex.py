"""How many live sessions one GPU keeps in time, at real size with random weights: the whole engine, no sockets.

    python benchmarks/duplex.py --json duplex.json

Loads `--load-format dummy`, warms everything up, and for each number of sessions opens that many, each with a clock of
its own that starts anywhere in a second and sends a unit a second. With random weights every unit speaks: some tokens
and 25 codec ids, which is the most that a session can ask for. Prints, from the end of a unit's last sample, the time
to its decision and to its speech (p50, p99, longest) and the share of units that were later than their second, then the
optimisation counters. Needs a CUDA device, or `--model tiny --device cpu --deploy-config cpu.yaml` to try it.
"""

import argparse
import json
import random
import threading
from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter, sleep

import numpy as np
import torch
from engine import random_voice

from antiphon.config.deploy import DeployConfig
from antiphon.config.load import load_deploy
from antiphon.pipeline.build import build_omni_model
from antiphon.pipeline.duplex.session import (
    Decided,
    InputUnit,
    Opened,
    SessionEvent,
    SessionFailed,
    SessionPlan,
    Spoken,
    UnitFailed,
    UnitFinished,
)
from antiphon.pipeline.local_engine import LocalEngine
from antiphon.pipeline.voice_book import PreparedVoice

UNIT_S = 1.0
UNIT_SAMPLES = 16_000
QUANTILES = (50, 99, 100)


@dataclass
class Session:
    """One speaker. Its units are sent when they are due, whether or not the last one is done."""

    name: str
    offset_s: float
    is_open: threading.Event = field(default_factory=threading.Event)
    sent_s: dict[int, float] = field(default_factory=dict)
    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    num_done: int = 0
    error: str = ""

    def hear(self, event: SessionEvent) -> None:
        now_s = perf_counter()
        if isinstance(event, Opened):
            self.is_open.set()
        elif isinstance(event, Decided):
            self.times["decision"].append(now_s - self.sent_s[event.number])
        elif isinstance(event, Spoken):
            self.times["speech"].append(now_s - self.sent_s[event.number])
        elif isinstance(event, UnitFinished):
            self.num_done += 1
            self.times["unit"].append(now_s - self.sent_s[event.number])
            self.times["tokens"].append(event.num_text_tokens)
            self.times["codes"].append(event.num_codec_frames)
        elif isinstance(event, (UnitFailed, SessionFailed)):
            self.error = str(event)
            self.is_open.set()


def run_level(engine: LocalEngine, voice: PreparedVoice, num_sessions: int, seconds: int) -> dict[str, float]:
    """*num_sessions* that all speak for *seconds*."""
    chance = random.Random(num_sessions)
    sound = np.random.default_rng(0).normal(0, 0.1, UNIT_SAMPLES).astype(np.float32)
    sessions = [Session(f"{num_sessions}-{index}", chance.random() * UNIT_S) for index in range(num_sessions)]
    handles = []
    for index, session in enumerate(sessions):
        plan = SessionPlan(session_id=session.name, voice=voice, seed=index)
        handles.append(engine.duplex.open(plan, session.hear))
    for session in sessions:
        assert session.is_open.wait(60), "a session did not open"
        if session.error:
            raise SystemExit(session.error)
    start_s = perf_counter()
    due = sorted(
        (session.offset_s + UNIT_S * number, index, number)
        for index, session in enumerate(sessions)
        for number in range(seconds)
    )
    for at_s, index, number in due:
        sleep(max(0.0, start_s + at_s - perf_counter()))
        sessions[index].sent_s[number] = start_s + at_s  # when its last sample was there
        handles[index].append(InputUnit(epoch=0, number=number, samples=sound))
    deadline_s = perf_counter() + 30
    while any(session.num_done < seconds and not session.error for session in sessions) and perf_counter() < deadline_s:
        sleep(0.01)
    for handle in handles:
        handle.close()
    sleep(0.2)
    errors = [session.error for session in sessions if session.error]
    figures = {"sessions": num_sessions, "units": sum(s.num_done for s in sessions), "errors": len(errors)}
    for name in ("decision", "speech"):
        # The first units open graphs' memory and caches; they are a start-up, not a state.
        times = [value for session in sessions for value in session.times[name][2:]]
        for quantile in QUANTILES if times else ():
            figures[f"{name} p{quantile}, ms"] = 1e3 * float(np.percentile(times, quantile))
    units = [value for session in sessions for value in session.times["unit"][2:]]
    figures["late units, %"] = 100 * sum(value > UNIT_S for value in units) / max(1, len(units))
    figures["tokens a unit"] = float(np.mean([value for s in sessions for value in s.times["tokens"]]))
    figures["codes a unit"] = float(np.mean([value for s in sessions for value in s.times["codes"]]))
    if errors:
        print("  first error:", errors[0])
    return figures


def sized(config: DeployConfig, num_sessions: int) -> DeployConfig:
    return replace(config, duplex_session=replace(config.duplex_session, max_sessions=num_sessions))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", default="dummy", help="`dummy` (real sizes), `tiny`, or the folder of a checkpoint")
    parser.add_argument("--deploy-config", default="minicpmo_4_5_live64.yaml")
    parser.add_argument("--sessions", type=int, nargs="+", default=[1, 16, 32, 48, 64])
    parser.add_argument("--seconds", type=int, default=12, help="units of each session at each level")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    is_dummy = arguments.model == "dummy"
    start_s = perf_counter()
    model = build_omni_model(arguments.model, device=device, load_format="dummy" if is_dummy else "auto")
    config = sized(load_deploy(arguments.deploy_config, platform=device.type), max(arguments.sessions))
    results = []
    with LocalEngine(model, config) as engine:
        engine.start()
        print(f"ready after {perf_counter() - start_s:.1f} s", flush=True)
        if device.type == "cuda":
            free, total = torch.cuda.mem_get_info()
            print(f"memory: {(total - free) / 1e9:.1f} of {total / 1e9:.1f} GB", flush=True)
        voice = random_voice() if is_dummy else engine.voices.prepare(None)
        for num_sessions in arguments.sessions:
            results.append(run_level(engine, voice, num_sessions, arguments.seconds))
            print({name: round(value, 1) for name, value in results[-1].items()}, flush=True)
        counters = {name: value for name, value in engine.snapshot().items() if value}
        print("counters", counters)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps({"levels": results, "counters": counters}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
