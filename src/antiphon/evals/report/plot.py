"""Draws a report: how each metric is spread over the items, and the mean with its interval. Needs matplotlib."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Picture

from antiphon.core.errors import ConfigError
from antiphon.evals.metrics import METRICS, Metric
from antiphon.evals.report.document import Report
from antiphon.evals.report.summary import Figure, figures_of, groups_of

_MAX_PANELS = 6
_FEW_VALUES = 2  # a metric of yes and no has nothing to spread


def draw_report(report: Report, path: Path) -> None:
    """Write a picture to *path*; its ending (png, svg, pdf) chooses the format. Raises ConfigError if it cannot be."""
    figures = figures_of(report.items, report.seed)
    values = {name: [item.marks.values[name] for item in report.items if name in item.marks.values] for name in figures}
    spread = [name for name in figures if len(set(values[name])) > _FEW_VALUES][:_MAX_PANELS]
    groups = groups_of(report.items, report.seed)
    panels = len(spread) + len(groups) or 1
    num_columns = min(3, panels)
    num_rows = -(-panels // num_columns)
    picture = Picture(figsize=(4.4 * num_columns, 3.3 * num_rows), layout="constrained")
    FigureCanvasAgg(picture)
    axes = picture.subplots(num_rows, num_columns, squeeze=False).flatten()
    for place, name in enumerate(spread):
        _draw_spread(axes[place], METRICS[name], values[name], figures[name])
    for place, (kind, rows) in enumerate(groups.items(), start=len(spread)):
        _draw_groups(axes[place], kind, {group: row for group, row in rows.items() if row})
    for axis in axes[len(spread) + len(groups) :]:
        axis.set_axis_off()
    scorers = "; ".join(scorer.text for scorer in report.scorers.values())
    picture.suptitle(f"{report.kind}: {len(report.items)} items", fontsize="large")
    picture.supxlabel(scorers, fontsize="xx-small", color="0.4")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.savefig(path, dpi=140)
    except (OSError, ValueError) as error:  # ValueError: an ending that matplotlib does not know
        raise ConfigError(f"{path}: the plot cannot be written ({error})") from None


def _draw_spread(axes: Axes, metric: Metric, values: list[float], figure: Figure) -> None:
    """Share of items at or below each value, with the mean and its interval."""
    scale = 100.0 if metric.unit == "%" else 1.0
    shown = sorted(value * scale for value in values)
    shares = [(place + 1) / len(shown) for place in range(len(shown))]
    axes.step([shown[0], *shown], [0.0, *shares], where="post", color="C0")
    if figure.interval is not None:
        axes.axvspan(figure.interval.low * scale, figure.interval.high * scale, color="C1", alpha=0.2, lw=0)
    axes.axvline(figure.mean * scale, color="C1", label=f"mean {metric.text(figure.mean)}")
    axes.set_xlabel(metric.title + (f" ({metric.unit})" if metric.unit else ""))
    axes.set_ylabel("share of items")
    axes.set_ylim(0, 1.02)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="lower right")


def _draw_groups(axes: Axes, kind: str, rows: dict[str, dict[str, Figure]]) -> None:
    names = list(rows)
    firsts = [next(iter(row.items())) for row in rows.values()]
    metric = METRICS[firsts[0][0]]
    scale = 100.0 if metric.unit == "%" else 1.0
    for place, (_, figure) in enumerate(firsts):
        low, high = (
            (figure.mean, figure.mean) if figure.interval is None else (figure.interval.low, figure.interval.high)
        )
        axes.plot([low * scale, high * scale], [place, place], color="C0", lw=5, alpha=0.3, solid_capstyle="butt")
        axes.plot([figure.mean * scale], [place], "o", color="C0")
    axes.set_yticks(
        range(len(names)), [f"{name} ({figure.count})" for name, (_, figure) in zip(names, firsts, strict=True)]
    )
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel(metric.title + (f" ({metric.unit})" if metric.unit else ""))
    if metric.name == "accuracy":
        axes.set_xlim(-2, 102)
    axes.set_title(kind, fontsize="medium")
    axes.grid(alpha=0.3)
