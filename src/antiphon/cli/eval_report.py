"""Scores outputs with progress on stderr, prints the report and writes its files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from antiphon import __version__
from antiphon.cli.bench_report import check_plot
from antiphon.cli.eval_progress import shown_bar
from antiphon.evals.items import Output
from antiphon.evals.report.document import Report, render_json, report_document, write_text
from antiphon.evals.report.markdown import render_markdown
from antiphon.evals.scoring.score import score_outputs
from antiphon.evals.scoring.scored import Part, Scored


@dataclass(frozen=True, kw_only=True)
class ReportFlags:
    """Where the report goes, and how it is made."""

    folder: Path
    plot: Path | None
    seed: int
    has_progress: bool


def score_and_report(
    kind: str,
    outputs: Sequence[Output],
    parts: Sequence[Part],
    flags: ReportFlags,
    *,
    dataset: str = "",
    run: Mapping[str, object] | None = None,
) -> Report:
    """Score *outputs* and write `KIND.json` and `KIND.md`, and the picture if one is wanted."""
    check_plot(flags.plot)
    with shown_bar("score", len(outputs), is_shown=flags.has_progress) as bar:

        def tell(item: Scored) -> None:
            bar.advance()
            for part, why in item.problems.items():
                bar.say(f"{item.item_id}: {part} not scored: {why}")

        items = score_outputs(outputs, parts, tell)
    report = Report(
        kind=kind,
        dataset=dataset,
        scorers={part.name: part.scorer for part in parts},
        items=items,
        run=run or {},
        made_with={"antiphon": __version__},
        seed=flags.seed,
    )
    typer.echo(render_markdown(report))
    write_text(flags.folder / f"{kind}.json", render_json(report_document(report)))
    address = _draw(report, flags.plot, flags.folder) if flags.plot is not None else ""
    write_text(flags.folder / f"{kind}.md", render_markdown(report, address))
    typer.echo(f"written: {flags.folder / f'{kind}.json'} and {kind}.md", err=True)
    return report


def finish(report: Report) -> None:
    """Exit code 1 if an item failed or could not be scored."""
    if report.num_failed or report.num_unscored:
        raise typer.Exit(1)


def _draw(report: Report, plot: Path, folder: Path) -> str:
    """Draw the picture and return its address as seen from *folder*."""
    import os

    from antiphon.evals.report.plot import draw_report

    draw_report(report, plot)
    return Path(os.path.relpath(plot, folder)).as_posix()
