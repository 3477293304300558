"""A progress bar on stderr and a line for each sample of an evaluation."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@dataclass(frozen=True)
class Outcome:
    """What became of a sample: `error` is empty unless it failed."""

    name: str
    what: str
    error: str
    was_skipped: bool


@contextmanager
def shown_outcomes(name: str, total: int, *, is_shown: bool) -> Iterator[Callable[[Outcome], None]]:
    """Tell of each sample as it ends; skipped ones only move the bar, which a stderr without terminal does not get."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    is_disabled = not (is_shown and sys.stderr.isatty())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=is_disabled) as bar:
        task = bar.add_task(name, total=total)

        def tell(outcome: Outcome) -> None:
            bar.advance(task)
            if outcome.error:
                typer.echo(f"{outcome.name}: failed: {outcome.error}", err=True)
            elif not outcome.was_skipped:
                typer.echo(f"{outcome.name}: {outcome.what}")

        yield tell
