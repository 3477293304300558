"""A progress bar on stderr with lines above it; without a terminal only the lines."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


@dataclass(frozen=True)
class Bar:
    """One row of progress."""

    progress: Progress
    task: TaskID

    def advance(self) -> None:
        self.progress.advance(self.task)

    def say(self, line: str) -> None:
        """A line on stderr, above the bar."""
        if self.progress.disable:
            typer.echo(line, err=True)
        else:
            self.progress.console.print(line, markup=False, highlight=False)


@contextmanager
def shown_bar(name: str, total: int, *, is_shown: bool) -> Iterator[Bar]:
    """A bar for *total* items, gone when the block is left."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    is_disabled = not (is_shown and sys.stderr.isatty())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=is_disabled) as progress:
        yield Bar(progress, progress.add_task(name, total=total))
