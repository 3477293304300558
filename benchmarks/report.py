"""Everything that the stages and the engine cost on this GPU, in one run: eager, captured, and the floor beside them.

    python benchmarks/report.py --out measurements

Runs the benchmarks of this folder one after the other, each in a process of its own, and prints one table: ms a Thinker
token, ms a codec id and ms a chunk of 1 s at batch 1, 4 and 16, the text's and the speech's first piece and RTF at
concurrency 1, 4 and 16 for both hand-offs, beside the eager path and the floor of the weights' and caches' traffic;
then start, memory and the optimisation counters. `--out` keeps what each benchmark wrote, and the table as `report.md`.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).parent
BATCHES = (1, 4, 16)
BANDWIDTH = 4.3e12  # bytes a second that the card reads and writes
THINKER_WEIGHT_BYTES = 15.13e9  # body and head in bf16: read once a step
THINKER_TOKEN_BYTES = 147_456  # keys and values of a position
CONTEXT = 1024
# Arithmetic of a chunk: 205 GFLOP at half the bf16 rate (TF32), and about 1 ms of float32 weights once.
CHUNK_FLOPS, TF32_RATE, CHUNK_WEIGHTS_MS = 205e9, 395e12, 1.0
Figures = dict[str, float]


@dataclass(frozen=True)
class Row:
    """One line of the table; an empty cell is a figure that does not exist."""

    name: str
    eager: float | None
    measured: tuple[float | None, float | None, float | None]
    floor: tuple[float | None, float | None, float | None]

    def cells(self) -> list[str]:
        return [self.name, _number(self.eager), *map(_number, self.measured), *map(_number, self.floor)]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def run(script: str, arguments: Sequence[str], target: Path) -> dict:
    """What *script* wrote. Raises CalledProcessError, its output shown, if it failed."""
    start_s = time.perf_counter()
    print(" ".join(("…", script, *arguments)), end=" ", flush=True)
    command = [sys.executable, str(HERE / script), "--json", str(target), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    target.with_suffix(".log").write_text(done.stdout, encoding="utf-8")
    print(f"{time.perf_counter() - start_s:.0f} s", flush=True)
    if done.returncode:
        print(done.stdout[-4000:], file=sys.stderr)
        done.check_returncode()
    return json.loads(target.read_text(encoding="utf-8"))


def rows_of(eager: Figures, thinker: Figures, talker: Figures, code2wav: dict[str, Figures], engine: dict) -> list[Row]:
    """The table from what the benchmarks wrote."""
    tf32 = code2wav["TF32, graphs"]

    def at(figures: Figures, label: str) -> tuple[float | None, float | None, float | None]:
        first, second, third = (figures.get(label.format(batch)) for batch in BATCHES)
        return first, second, third

    def served(handoff: str, num_tokens: int, figure: str) -> tuple[float | None, float | None, float | None]:
        by_level = [engine[f"{handoff}, {num_tokens} tokens, concurrency {level}"][figure] for level in BATCHES]
        return by_level[0], by_level[1], by_level[2]

    none = (None, None, None)
    decode = f"decode, batch {{}}, context {CONTEXT}, greedy: "
    codec = "codec id, batch {}, context 600, windows of 25: "
    rows = [
        Row("Thinker, ms a token (context 1,024)", eager["thinker token, ms"], at(thinker, decode + "ms a token"),
            _three(lambda batch: (THINKER_WEIGHT_BYTES + batch * CONTEXT * THINKER_TOKEN_BYTES) / BANDWIDTH * 1e3)),
        Row("  of that spent by the host, hidden", None, at(thinker, decode + "of that host, ms"), none),
        Row("  device idle between two steps, µs", None, at(thinker, decode + "device idle between steps, us"), none),
        Row("  the same, worst, µs", None, at(thinker, decode + "the same, worst, us"), none),
        Row("  steps enqueued too late, of 64", None, at(thinker, decode + "steps enqueued too late"), none),
        Row("Talker, ms a codec id (context 600)", eager["codec id, ms"], at(talker, codec + "ms"),
            at(talker, codec + "floor, ms")),
        Row("Code2Wav, ms a chunk of 1 s (TF32)", eager["vocoded second, streamed, ms"],
            at(tf32, "steady chunk, batch {}, ms"),
            _three(lambda batch: max(CHUNK_WEIGHTS_MS, batch * CHUNK_FLOPS / TF32_RATE * 1e3))),
        Row("Code2Wav, the same in float32", None, at(code2wav["float32, graphs"], "steady chunk, batch {}, ms"), none),
    ]  # fmt: skip
    for handoff in ("span", "stream"):
        for num_tokens, seconds in ((15, 5.8), (32, 12.4)):
            title = f"{handoff}, {num_tokens} tokens, {seconds} s of speech: "
            is_eager = num_tokens == 32
            rows += [
                Row(title + "first text, ms", eager[f"{handoff}: first text, ms"] if is_eager else None,
                    served(handoff, num_tokens, "TTFT, ms"), none),
                Row(title + "first audio, ms", eager[f"{handoff}: first audio, ms"] if is_eager else None,
                    served(handoff, num_tokens, "first audio, ms"), none),
                Row(title + "RTF", eager[f"{handoff}: RTF"] if is_eager else None,
                    served(handoff, num_tokens, "RTF"), none),
                Row(title + "audio s per s", None, served(handoff, num_tokens, "audio s per s"), none),
            ]  # fmt: skip
    return rows


def _three(value_of: Callable[[int], float]) -> tuple[float, float, float]:
    return value_of(1), value_of(4), value_of(16)


def render(rows: Sequence[Row]) -> str:
    """As Markdown, its columns aligned."""
    head = ["", "eager, 1", *(str(batch) for batch in BATCHES), *(f"floor, {batch}" for batch in BATCHES)]
    cells = [head, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]

    def line(values: Sequence[str]) -> str:
        first, *rest = values
        right = [value.rjust(width) for value, width in zip(rest, widths[1:], strict=True)]
        return "| " + " | ".join([first.ljust(widths[0]), *right]) + " |"

    rule = "|" + "|".join("-" * (width + 1) + (":" if column else "-") for column, width in enumerate(widths)) + "|"
    return "\n".join([line(cells[0]), rule, *map(line, cells[1:])])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="a folder for the figures of each benchmark and the table")
    parser.add_argument("--rounds", type=int, default=2, help="requests per unit of concurrency")
    parser.add_argument("--skip-eager", type=Path, metavar="JSON", help="take the eager figures from this earlier run")
    arguments = parser.parse_args()
    with TemporaryDirectory() as scratch:
        out: Path = arguments.out or Path(scratch)
        out.mkdir(parents=True, exist_ok=True)
        if arguments.skip_eager is None:
            eager = run("eager_baseline.py", (), out / "eager_baseline.json")
        else:
            eager = json.loads(arguments.skip_eager.read_text(encoding="utf-8"))
        thinker = run("thinker_step.py", (), out / "thinker_step.json")
        talker = run("talker_step.py", (), out / "talker_step.json")
        code2wav = run("code2wav_chunk.py", ("--skip-plain",), out / "code2wav_chunk.json")
        engine = run("engine.py", ("--rounds", str(arguments.rounds)), out / "engine.json")
        table = render(rows_of(eager, thinker, talker, code2wav, engine))
        start = ", ".join(f"{name.removesuffix(', s')} {value:.1f}" for name, value in engine["start"].items())
        counters = ", ".join(f"{name} {value:g}" for name, value in sorted(engine["counters"].items()) if value)
        report = f"{table}\n\nStart: {start}.\nCounters of the engine's run: {counters}.\n"
        print(report)
        if arguments.out is not None:
            (out / "report.md").write_text(report, encoding="utf-8")


if __name__ == "__main__":
    main()
