"""`antiphon checkpoint`: make a tiny checkpoint, or look into any."""

from pathlib import Path
from typing import Annotated

import typer

from antiphon.core.errors import CheckpointError

app = typer.Typer(help="Make a tiny checkpoint, or look into any.", no_args_is_help=True)
_MAX_LISTED = 20  # names of one kind


@app.command("make-tiny")
def make_tiny_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is absent or empty.")],
    seed: Annotated[int, typer.Option(min=0, help="Of the random weights.")] = 0,
) -> None:
    """Write a checkpoint of the real layout with tiny sizes and random weights (under 10 MB)."""
    from antiphon.pipeline.tiny_checkpoint.checkpoint import make_tiny

    make_tiny(folder, seed)
    size_bytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    typer.echo(f"{folder}: tiny checkpoint, {_bytes(size_bytes)}")


@app.command("inspect")
def inspect_command(
    model: Annotated[str, typer.Argument(metavar="DIR", help="Folder of a checkpoint, hub id, or 'tiny'.")],
) -> None:
    """Show parts, parameters and bytes of a checkpoint, and the names that are missing or out of place."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from antiphon.offline.inspect import inspect_checkpoint
    from antiphon.pipeline.build import resolve_source

    report = inspect_checkpoint(resolve_source(model))
    table = Table(title=escape(str(report.folder)), show_footer=True)
    table.add_column("part", "total")
    for header, total in (
        ("tensors", f"{sum(part.num_tensors for part in report.parts):,}"),
        ("parameters", f"{sum(part.num_parameters for part in report.parts):,}"),
        ("size", _bytes(sum(part.num_bytes for part in report.parts))),
    ):
        table.add_column(header, total, justify="right")
    table.add_column("dtype")
    for part in report.parts:
        dtypes = ", ".join(part.dtypes)
        table.add_row(part.name, f"{part.num_tensors:,}", f"{part.num_parameters:,}", _bytes(part.num_bytes), dtypes)
    Console().print(table)
    for entry in report.accounts:
        for kind, names in (
            ("missing", entry.missing),
            ("unexpected", entry.unexpected),
            ("mis-shaped", entry.misshaped),
        ):
            for name in names[:_MAX_LISTED]:
                typer.echo(f"{kind}: {name} ({entry.where})")
            if len(names) > _MAX_LISTED:
                typer.echo(f"{kind}: {len(names) - _MAX_LISTED} more ({entry.where})")
    for problem in report.problems:
        typer.echo(f"problem: {problem}")
    if not report.is_complete:
        raise CheckpointError(f"{report.folder}: not a complete checkpoint; what is wrong is listed above")
    typer.echo("complete: every tensor and file is in its place")


def _bytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:.2f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.2f} MB"
