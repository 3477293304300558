"""Draw how the cost of a step grows with batch and context, from the figures in docs/measurements.

    python benchmarks/plot_costs.py docs/costs.svg

`thinker_step.json` and `code2wav_chunk.json` are what the benchmarks of those names write; `talker_step.json` holds ms
per step by context and batch, as `talker_step.py` prints them for windows of 25 steps.
"""

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt

MEASUREMENTS = Path(__file__).parents[1] / "docs" / "measurements"
BATCHES = (1, 4, 16)


def load(name: str) -> dict:
    return json.loads((MEASUREMENTS / f"{name}.json").read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path, help="SVG to write")
    arguments = parser.parse_args()
    thinker, talker, code2wav = load("thinker_step"), load("talker_step"), load("code2wav_chunk")
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    for context in (256, 1024, 4096):
        values = [thinker[f"decode, batch {batch}, context {context}, greedy: ms a token"] for batch in BATCHES]
        axes[0].plot(BATCHES, values, marker="o", label=f"context {context:,}")
    axes[0].set_title("Thinker: ms a token")
    for context, values in talker.items():
        axes[1].plot(BATCHES, [values[str(batch)] for batch in BATCHES], marker="o", label=f"context {context}")
    axes[1].set_title("Talker: ms a codec id (40 ms of speech)")
    for precision in ("TF32", "float32"):
        values = [code2wav[f"{precision}, graphs"][f"steady chunk, batch {batch}, ms"] for batch in BATCHES]
        axes[2].plot(BATCHES, values, marker="o", label=precision)
    axes[2].set_title("Code2Wav: ms a chunk (1 s of speech)")
    for axis in axes:
        axis.set_xlabel("streams in a batch")
        axis.set_xticks(BATCHES)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend()
    figure.savefig(arguments.target)


if __name__ == "__main__":
    main()
