"""A report for people, in Markdown that also reads well as it stands."""

from collections.abc import Sequence

from antiphon.evals.metrics import METRICS, Metric
from antiphon.evals.report.document import Report
from antiphon.evals.report.summary import Figure, corpus_rate, figures_of, groups_of
from antiphon.evals.scoring.scored import Scored
from antiphon.statistics.resampling import Interval

_MAX_LISTED = 5


def render_markdown(report: Report, picture: str = "") -> str:
    """*report* as a page, with the picture at the address *picture*."""
    lines = [f"# {report.kind}" + (f": {report.dataset}" if report.dataset not in ("", report.kind) else ""), ""]
    counts = [f"{len(report.items)} items"]
    counts += [f"{report.num_failed} failed"] if report.num_failed else []
    counts += [f"{report.num_unscored} not scored in full"] if report.num_unscored else []
    lines += [", ".join(counts) + ".", ""]
    figures = figures_of(report.items, report.seed)
    rows = [
        (METRICS[name].title, *_cells(METRICS[name], figure), METRICS[name].text(figure.median), str(figure.count))
        for name, figure in figures.items()
    ]
    lines += render_table(("", "mean", "95 % interval", "median", "items"), rows)
    if (rate := corpus_rate(report.items)) is not None:
        lines += ["", f"Over all words together: {METRICS['wer'].text(rate)} errors."]
    for kind, groups in groups_of(report.items, report.seed).items():
        rows = [
            (group, METRICS[name].title, *_cells(METRICS[name], figure), str(figure.count))
            for group, row in groups.items()
            for name, figure in row.items()
        ]
        lines += ["", *render_table((kind, "", "mean", "95 % interval", "items"), rows)]
    lines += _scorers(report)
    lines += ["", f"![figures]({picture})"] if picture else []
    return "\n".join([*lines, *_most_wrong(report.items), *_left_out(report.items)]) + "\n"


def interval_text(metric: Metric, interval: Interval | None) -> str:
    """*interval* in the unit of *metric*; "" for None."""
    return "" if interval is None else f"{metric.text(interval.low)} … {metric.text(interval.high)}"


def render_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table whose columns are padded to one width."""
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in (heads, *rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(heads))]
    lines = [f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))} |" for row in cells]
    return [lines[0], f"|{'|'.join('-' * (width + 2) for width in widths)}|", *lines[1:]]


def _cells(metric: Metric, figure: Figure) -> tuple[str, str]:
    return metric.text(figure.mean), interval_text(metric, figure.interval)


def _scorers(report: Report) -> list[str]:
    lines = [f"- {part}: {scorer.text}" for part, scorer in report.scorers.items()]
    return ["", "Scored by:", "", *lines] if lines else []


def _most_wrong(items: Sequence[Scored]) -> list[str]:
    """The utterances to listen to first."""
    wrong = sorted((item for item in items if item.marks.values.get("wer")), key=lambda item: -item.marks.values["wer"])
    rows = [
        (
            item.item_id,
            METRICS["wer"].text(item.marks.values["wer"]),
            str(item.marks.details.get("target", "")),
            str(item.marks.details.get("heard", "")),
        )
        for item in wrong[:_MAX_LISTED]
    ]
    return ["", "Most word errors:", "", *render_table(("item", "errors", "text", "heard"), rows)] if rows else []


def _left_out(items: Sequence[Scored]) -> list[str]:
    lines = [f"- {item.item_id}: failed: {item.error}" for item in items if item.error]
    lines += [f"- {item.item_id}: {part}: {why}" for item in items for part, why in item.problems.items()]
    more = [f"- and {len(lines) - _MAX_LISTED} more"] if len(lines) > _MAX_LISTED else []
    return ["", "Left out:", "", *lines[:_MAX_LISTED], *more] if lines else []
