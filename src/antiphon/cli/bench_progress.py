"""A progress bar on stderr for a benchmark run, and what is printed after each level."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from antiphon.bench.result_file import LevelResult
from antiphon.bench.run import Progress as RunProgress
from antiphon.bench.timeline import RequestRecord


@contextmanager
def shown_progress(report: Callable[[LevelResult], str], *, is_shown: bool) -> Iterator[RunProgress]:
    """Show how far a run is, unless stderr is no terminal, and print *report* of each level to stdout."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[failed]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    is_disabled = not (is_shown and sys.stderr.isatty())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=is_disabled) as bar:
        failures = 0

        def begin(name: str, total: int) -> None:
            nonlocal failures
            failures = 0
            for task in bar.task_ids:
                bar.remove_task(task)
            bar.add_task(name, total=total, failed="")

        def advance(record: RequestRecord) -> None:
            nonlocal failures
            failures += record.answer.error is not None
            bar.update(bar.task_ids[0], advance=1, failed=f"{failures} failed" if failures else "")

        def print_report(result: LevelResult) -> None:
            for task in bar.task_ids:
                bar.remove_task(task)
            typer.echo(report(result))
            for error in result.summary.errors[:5]:
                typer.echo(f"failed: {error}", err=True)

        yield RunProgress(begin=begin, advance=advance, report=print_report)
