"""`antiphon verify`: replay recorded vectors and say which of them this installation reproduces."""

from pathlib import Path
from typing import Annotated

import typer

from antiphon.core.errors import ConfigError

SHOWN_FAILURES = 5


def verify(
    folder: Annotated[Path, typer.Argument(help="Folder of recorded vectors (with a manifest.json).", metavar="DIR")],
    only: Annotated[str, typer.Option(help="Replay only files that match, as 07_code2wav/*.")] = "*",
    device: Annotated[str, typer.Option(help="Where to compute. Tolerances are meant for float32 on a CPU.")] = "cpu",
) -> None:
    """Replay recorded vectors of the reference through this installation.

    Prints one line for each recorded file with its largest error. The exit code is 1 if anything is missed; a recorded
    case that this version does not know is a miss.
    """
    import torch

    from antiphon.offline.choices import parse_device
    from antiphon.offline.verify.runner import run_verify

    torch.set_grad_enabled(False)
    num_cases = num_missed = 0
    for result in run_verify(folder, device=parse_device(device), only=only):
        num_cases += 1
        num_missed += not result.passed
        worst = f"  {result.worst}" if result.worst else ""
        typer.echo(
            f"{'ok  ' if result.passed else 'MISS'}  {result.file:<44} {result.num_checks:5d} checks  "
            f"max error {result.max_error:.2e}{worst}  {result.duration_s:.1f} s"
        )
        for failure in result.failures[:SHOWN_FAILURES]:
            typer.echo(f"      {failure}")
        if len(result.failures) > SHOWN_FAILURES:
            typer.echo(f"      … and {len(result.failures) - SHOWN_FAILURES} more")
    if num_cases == 0:
        raise ConfigError(f"{folder}: no recorded file matches {only!r}")
    typer.echo(f"{num_cases - num_missed} of {num_cases} recorded files reproduced")
    if num_missed:
        raise typer.Exit(1)
