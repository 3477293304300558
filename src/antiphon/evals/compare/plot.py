"""Draws a comparison: each item's value in the first run against its value in the second. Needs matplotlib."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Picture

from antiphon.core.errors import ConfigError
from antiphon.evals.compare.comparison import Comparison, Difference
from antiphon.evals.metrics import Better

_MAX_PANELS = 6


def draw_comparison(found: Comparison, path: Path) -> None:
    """Write a picture to *path*; its ending (png, svg, pdf) chooses the format. Raises ConfigError if it cannot be.

    Shown are the figures that differ in some item, those that are judged first.
    """
    differing = [item for item in found.differences if item.interval is None or item.interval.low != item.interval.high]
    shown = sorted(differing, key=lambda item: item.metric.better is Better.NEITHER)[:_MAX_PANELS]
    num_columns = max(1, min(3, len(shown)))
    num_rows = max(1, -(-len(shown) // num_columns))
    picture = Picture(figsize=(3.9 * num_columns, 3.9 * num_rows), layout="constrained")
    FigureCanvasAgg(picture)
    axes = picture.subplots(num_rows, num_columns, squeeze=False).flatten()
    for axis, item in zip(axes, shown, strict=False):
        _draw_pairs(axis, item, found)
    for axis in axes[len(shown) :]:
        axis.set_axis_off()
    picture.suptitle(f"{found.first.kind}: {found.num_shared} items in both runs")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.savefig(path, dpi=140)
    except (OSError, ValueError) as error:  # ValueError: an ending that matplotlib does not know
        raise ConfigError(f"{path}: the plot cannot be written ({error})") from None


def _draw_pairs(axes: Axes, item: Difference, found: Comparison) -> None:
    """One dot for each item, and the line on which both runs are alike."""
    metric, first, second = item.metric, found.first.items, found.second.items
    scale = 100.0 if metric.unit == "%" else 1.0
    pairs = [
        (scale * first[name].values[metric.name], scale * second[name].values[metric.name])
        for name in first
        if name in second and metric.name in first[name].values and metric.name in second[name].values
    ]
    low, high = min(min(pair) for pair in pairs), max(max(pair) for pair in pairs)
    margin = 0.05 * (high - low or 1.0)
    limits = (low - margin, high + margin)
    axes.plot(limits, limits, color="0.6", lw=1)
    axes.plot([before for before, _ in pairs], [after for _, after in pairs], "o", color="C0", alpha=0.6)
    axes.plot([scale * item.first], [scale * item.second], "+", color="C1", markersize=14, markeredgewidth=2)
    axes.set_xlim(limits)
    axes.set_ylim(limits)
    axes.set_aspect("equal")
    unit = f" ({metric.unit})" if metric.unit else ""
    axes.set_xlabel(f"{metric.title}{unit}, first")
    axes.set_ylabel("second")
    axes.set_title(item.verdict.value, fontsize="medium")
    axes.grid(alpha=0.3)
