"""Draw how the cost of a step grows with batch and context, and memory with sessions, from docs/measurements.

    python benchmarks/plot_costs.py docs/costs.svg

Each file there is what the benchmark of its name wrote.
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
    memory = load("memory")
    figure, grid = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")
    axes = grid.flatten()
    for context in (256, 1024, 4096):
        values = [thinker[f"decode, batch {batch}, context {context}, greedy: ms a token"] for batch in BATCHES]
        axes[0].plot(BATCHES, values, marker="o", label=f"context {context:,}")
    axes[0].set_title("Thinker: ms a token")
    for context in (200, 600):
        values = [talker[f"codec id, batch {batch}, context {context}, windows of 25: ms"] for batch in BATCHES]
        axes[1].plot(BATCHES, values, marker="o", label=f"context {context}")
    axes[1].set_title("Talker: ms a codec id (40 ms of speech)")
    for precision in ("TF32", "float32"):
        values = [code2wav[f"{precision}, graphs"][f"steady chunk, batch {batch}, ms"] for batch in BATCHES]
        axes[2].plot(BATCHES, values, marker="o", label=precision)
    axes[2].set_title("Code2Wav: ms a chunk (1 s of speech)")
    for axis in axes[:3]:
        axis.set_xlabel("streams in a batch")
        axis.set_xticks(BATCHES)
    sessions = [int(count) for count in memory["thinker"]]
    for stage, held in (("thinker", "8,192 positions"), ("talker", "4,096 positions"), ("code2wav", "one slot")):
        axes[3].plot(sessions, list(memory[stage].values()), marker="o", label=f"{stage}, {held} each")
    axes[3].set_title("caches of live sessions: GB, beside 19.4 GB of weights")
    axes[3].set_xlabel("sessions")
    axes[3].set_xticks(sessions)
    for axis in axes:
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend()
    figure.savefig(arguments.target)


if __name__ == "__main__":
    main()
