"""A progress bar on stderr while a checkpoint is loaded."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn


@contextmanager
def loading(model: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show how much of *model* is loaded: gives what to call with bytes so far and bytes in all (None: no terminal)."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("loading {task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(model, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
