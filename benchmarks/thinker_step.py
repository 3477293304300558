"""What the Thinker engine costs at real size with random weights.

    python benchmarks/thinker_step.py --json thinker.json

Prints the time from start to ready, ms per token at several batches and contexts (wall clock, through the engine, one
step ahead), how much of that the host spends, how long the device waits between two decode steps, and ms from admission
to the first token of a prompt. Needs nothing beyond torch and Triton.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter

import torch

from antiphon.config.checkpoint_files import shipped_model_config
from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.settings import ThinkerSettings
from antiphon.engine.thinker_engine import ThinkerEngine
from antiphon.engine.thinker_messages import ThinkerJob, ThinkerOutput, ThinkerSampling
from antiphon.engine.thinker_runner import StepResult
from antiphon.engine.thinker_step import StepInput
from antiphon.models.dummy import build_dummy_stages

WARM_TOKENS = 8
PROMPTS = (128, 512)
SAMPLINGS = {
    "greedy": ThinkerSampling(max_tokens=10_000),
    "top-k": ThinkerSampling(
        max_tokens=10_000, temperature=0.7, top_p=0.8, top_k=100, repetition_penalty=1.02, seed=42
    ),
    "sort": ThinkerSampling(max_tokens=10_000, temperature=0.7, top_p=0.8, seed=42),
}


class StepTimer:
    """Watches whether the device ever waits for the host between two steps.

    Device events stand around every step. Where a step was enqueued whole before the one ahead of it ended, the time
    between their events is the idle time; where it was enqueued later, the host's own lateness counts on top.
    """

    def __init__(self, engine: ThinkerEngine) -> None:
        self._stream, self._run = engine._stream, engine._runner.run
        self._events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        self.num_late = 0  # steps that were not enqueued before the one ahead had ended
        engine._runner.run = self._timed  # type: ignore[method-assign]

    def _timed(self, step: StepInput) -> StepResult:
        if self._stream.cuda is None:
            return self._run(step)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record(self._stream.cuda)
        result = self._run(step)
        end.record(self._stream.cuda)
        if self._events and self._events[-1][1].query():
            self.num_late += 1
        self._events.append((start, end))
        return result

    def reset(self) -> None:
        self._events, self.num_late = [], 0

    def gaps_us(self) -> list[float]:
        """Microseconds between each step and the one ahead of it since `reset`."""
        if self._events:
            torch.cuda.synchronize()
        return [1e3 * ahead[1].elapsed_time(behind[0]) for ahead, behind in pairwise(self._events)]


class Bench:
    def __init__(self, settings: ThinkerSettings, device: torch.device, *, num_layers: int | None) -> None:
        self.figures: dict[str, float] = {}
        start_s = perf_counter()
        config = shipped_model_config()
        if num_layers is not None:
            config = replace(config, llm=replace(config.llm, num_layers=num_layers))
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        model = build_dummy_stages(config, device=device, dtype=dtype, flow_config=None).thinker
        self._mark("weights, s", start_s, device)
        self.counters = Counters()
        start_s = perf_counter()
        self.engine = ThinkerEngine(
            model,
            settings,
            device=device,
            dtype=dtype,
            counters=self.counters,
            stream=DeviceStream(device),
            clock=perf_counter,
        )
        self._mark("engine, s", start_s, device)
        start_s = perf_counter()
        self.engine.warm_up(lambda _: None)
        self._mark("warm-up, s", start_s, device)
        self._timer = StepTimer(self.engine)
        self.vocab_size = config.vocab_size
        self.device = device
        self._num_jobs = 0

    def _mark(self, name: str, start_s: float, device: torch.device) -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        self.figures[name] = perf_counter() - start_s

    def admit(self, context: int, sampling: ThinkerSampling, *, wants_hidden: bool = False) -> str:
        name = f"job {self._num_jobs}"
        generator = torch.Generator().manual_seed(self._num_jobs)
        self._num_jobs += 1
        ids = torch.randint(self.vocab_size, (context,), generator=generator).tolist()
        self.engine.admit(ThinkerJob(seq_id=name, ids=tuple(ids), sampling=sampling, wants_hidden=wants_hidden))
        return name

    def decode(self, batch: int, context: int, kind: str, num_tokens: int) -> None:
        """Steady decoding of *batch* rows behind *context* tokens each."""
        names = [self.admit(context, SAMPLINGS[kind], wants_hidden=True) for _ in range(batch)]
        got: Counter[str] = Counter()
        host_s = 0.0

        def advance(until: int) -> None:
            nonlocal host_s
            while min(got[name] for name in names) < until:
                before_s = perf_counter()
                is_launched = self.engine.launch()
                outputs = self.engine.collect()
                if is_launched or outputs:
                    host_s += perf_counter() - before_s
                for output in outputs:
                    got[output.seq_id] += len(output.new_ids)

        advance(WARM_TOKENS)
        self._timer.reset()
        first, host_s, start_s = min(got.values()), 0.0, perf_counter()
        advance(first + num_tokens)
        wall_s, num_steps = perf_counter() - start_s, min(got.values()) - first
        gaps_us = self._timer.gaps_us()
        self.stop(names)
        label = f"decode, batch {batch}, context {context}, {kind}"
        self.figures[f"{label}: ms a token"] = 1e3 * wall_s / num_steps
        self.figures[f"{label}: of that host, ms"] = 1e3 * host_s / num_steps
        if gaps_us:
            self.figures[f"{label}: device idle between steps, us"] = median(gaps_us)
            self.figures[f"{label}: the same, worst, us"] = max(gaps_us)
            self.figures[f"{label}: steps enqueued too late"] = self._timer.num_late

    def prefill(self, num_tokens: int, repeats: int = 7) -> None:
        """From admission to the first token."""
        times_s = []
        for _ in range(repeats):
            start_s = perf_counter()
            name = self.admit(num_tokens, replace(SAMPLINGS["greedy"], max_tokens=1))
            while not any(output.new_ids for output in self.run_once()):
                pass
            times_s.append(perf_counter() - start_s)
            self.stop([name])
        self.figures[f"prefill of {num_tokens} tokens to the first token, ms"] = 1e3 * median(times_s[2:])

    def run_once(self) -> list[ThinkerOutput]:
        self.engine.launch()
        return self.engine.collect()

    def stop(self, names: Sequence[str]) -> None:
        for name in names:
            self.engine.abort(name)
        while self.engine.has_work:
            self.run_once()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--layers", type=int, help="fewer layers than the real model has, to try the script out")
    parser.add_argument("--tokens", type=int, default=64, help="decode steps to time")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--contexts", type=int, nargs="+", default=[256, 1024, 4096])
    parser.add_argument("--no-graphs", action="store_true")
    parser.add_argument("--no-triton", action="store_true")
    parser.add_argument("--no-run-ahead", action="store_true")
    parser.add_argument("--json", type=Path, help="write the figures here too")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    longest = (
        max(*arguments.contexts, *PROMPTS) + arguments.tokens + 256
    )  # early rows decode while others still prefill
    settings = ThinkerSettings(
        max_num_seqs=max(arguments.batches),
        max_model_len=longest,
        kv_cache_blocks=(max(arguments.batches) + 1) * (longest // 16 + 2),
        use_graphs=not arguments.no_graphs,
        use_triton=not arguments.no_triton,
        use_run_ahead=not arguments.no_run_ahead,
    )
    bench = Bench(settings, device, num_layers=arguments.layers)
    for num_tokens in PROMPTS:
        bench.prefill(num_tokens)
    for context in arguments.contexts:
        for batch in arguments.batches:
            bench.decode(batch, context, "greedy", arguments.tokens)
    for kind in ("top-k", "sort"):
        for batch in arguments.batches:
            bench.decode(batch, min(arguments.contexts), kind, arguments.tokens)
    if device.type == "cuda":
        bench.figures["memory at the peak, GB"] = torch.cuda.max_memory_allocated(device) / 1e9
    figures = bench.figures | {f"counter {name}": float(count) for name, count in bench.counters.snapshot().items()}
    width = max(map(len, figures))
    for name, value in figures.items():
        print(f"{name:<{width}}  {value:10.3f}")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
