"""Draws a run of live sessions: how soon units are decided and answered. Needs matplotlib (`[bench]`)."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas

from antiphon.bench.duplex_load.result import DuplexResult
from antiphon.bench.duplex_load.summary import FIGURES, Figure, samples_of
from antiphon.core.errors import ConfigError

_CDFS = ("unit_decision", "unit_first_audio", "unit_lateness")


def draw_duplex_run(results: Sequence[DuplexResult], title: str, path: Path) -> None:
    """Write a picture of *results* to *path*; its ending chooses the format. Raises ConfigError."""
    figures = [figure for figure in FIGURES if figure.name in _CDFS]
    canvas = Canvas(figsize=(4.8 * (len(figures) + 1), 3.9), layout="constrained")
    FigureCanvasAgg(canvas)
    axes = canvas.subplots(1, len(figures) + 1, squeeze=False).flatten()
    for place, figure in enumerate(figures):
        _draw_cdf(axes[place], figure, results)
    _draw_sessions(axes[-1], results)
    canvas.suptitle(title)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        canvas.savefig(path, dpi=140)
    except (OSError, ValueError) as error:  # ValueError: an ending that matplotlib does not know
        raise ConfigError(f"{path}: the plot cannot be written ({error})") from None


def _draw_cdf(axes: Axes, figure: Figure, results: Sequence[DuplexResult]) -> None:
    for result in results:
        good = [record for record in result.records if record.error is None]
        values = sorted(value * figure.scale for value in samples_of(good)[figure.name])
        if values:
            shares = [(place + 1) / len(values) for place in range(len(values))]
            axes.step([values[0], *values], [0.0, *shares], where="post", label=str(_num_sessions(result)))
    axes.set_xlabel(f"{figure.title} (ms)")
    axes.set_ylabel("share of units")
    axes.set_ylim(0, 1.02)
    axes.set_xlim(0, max(1.0, axes.get_xlim()[1]))
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend(title="sessions", fontsize="small")


def _draw_sessions(axes: Axes, results: Sequence[DuplexResult]) -> None:
    """Median and worst percentile of decision and first audio against the number of sessions."""
    places = [_num_sessions(result) for result in results]
    for color, name in (("C0", "unit_decision"), ("C1", "unit_first_audio")):
        pairs = [result.summary.distributions.get(name) for result in results]
        found = [(place, pair) for place, pair in zip(places, pairs, strict=True) if pair is not None]
        xs = [place for place, _ in found]
        word = name.replace("_", " ")
        axes.plot(xs, [pair.median * 1000 for _, pair in found], f"{color}o-", label=f"{word}, median")
        worst = [pair.percentiles[-1][1] * 1000 if pair.percentiles else pair.median * 1000 for _, pair in found]
        axes.plot(xs, worst, f"{color}s--", label=f"{word}, worst percentile")
    axes.set_xlabel("sessions at once")
    axes.set_ylabel("ms after the end of the unit")
    axes.set_xticks(sorted(set(places)))
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")


def _num_sessions(result: DuplexResult) -> int:
    return result.level.max_concurrency or result.level.num_prompts
