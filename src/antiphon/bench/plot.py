"""Draws a run: how latencies are distributed, and throughput against concurrency. Needs matplotlib (`[bench]`)."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from antiphon.bench.metric_names import METRICS
from antiphon.bench.request_metrics import RequestMetrics, measure
from antiphon.bench.result_file import LevelResult
from antiphon.bench.summary import values_of
from antiphon.core.errors import ConfigError

_CDFS = ("ttft", "audio_ttfp", "e2el")


def draw_run(results: Sequence[LevelResult], title: str, path: Path) -> None:
    """Write a picture of *results* to *path*; its ending (png, svg, pdf) chooses the format.

    Raises:
        ConfigError: unknown ending, or the file cannot be written.
    """
    metrics = [[measure(record) for record in result.records if record.answer.error is None] for result in results]
    shown = [name for name in _CDFS if any(values_of(METRICS[name], item) for level in metrics for item in level)]
    num_panels = len(shown) + 1
    num_rows = 2 if num_panels == 4 else 1
    num_columns = num_panels // num_rows
    figure = Figure(figsize=(4.8 * num_columns, 3.9 * num_rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(num_rows, num_columns, squeeze=False).flatten()
    for place, name in enumerate(shown):
        _draw_cdf(axes[place], name, results, metrics)
    _draw_throughput(axes[len(shown)], results)
    figure.suptitle(title)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=140)
    except (OSError, ValueError) as error:  # ValueError: an ending that matplotlib does not know
        raise ConfigError(f"{path}: the plot cannot be written ({error})") from None


def _draw_cdf(
    axes: Axes, name: str, results: Sequence[LevelResult], metrics: Sequence[Sequence[RequestMetrics]]
) -> None:
    metric = METRICS[name]
    for result, level in zip(results, metrics, strict=True):
        values = sorted(value * metric.scale for item in level for value in values_of(metric, item))
        if values:
            shares = [(place + 1) / len(values) for place in range(len(values))]
            axes.step([values[0], *values], [0.0, *shares], where="post", label=_level_word(result))
    axes.set_xlabel(f"{metric.title} (ms)")
    axes.set_ylabel("share of requests")
    axes.set_ylim(0, 1.02)
    axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    axes.legend(title="concurrency", fontsize="small")


def _draw_throughput(axes: Axes, results: Sequence[LevelResult]) -> None:
    """One point per level: output tokens on the left axis, seconds of audio on the right one if there is sound."""
    places = [result.level.max_concurrency or result.summary.peak_concurrency for result in results]
    tokens = [result.summary.per_s(result.summary.output_tokens) for result in results]
    audio = [result.summary.per_s(result.summary.audio_duration_s) for result in results]
    lines = axes.plot(places, tokens, "o-", color="C0", label="output tok/s")
    axes.set_xlabel("concurrency")
    axes.set_ylabel("output tok/s")
    axes.set_xticks(sorted(set(places)))
    axes.set_ylim(0, 1.15 * max([*tokens, 1e-9]))
    axes.grid(alpha=0.3)
    if any(audio):
        right = axes.twinx()
        lines += right.plot(places, audio, "s--", color="C1", label="audio s/s")
        right.set_ylabel("seconds of audio per second")
        right.set_ylim(0, 1.15 * max(audio))
    axes.legend(lines, [str(line.get_label()) for line in lines], fontsize="small")


def _level_word(result: LevelResult) -> str:
    return str(result.level.max_concurrency or "unlimited")
