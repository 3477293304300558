"""`antiphon bench compare`: two result files side by side."""

from pathlib import Path
from typing import Annotated

import typer


def compare(
    first: Annotated[
        str, typer.Argument(help="Result of `bench serve`; FILE#2 is the second of a file.", metavar="A.json")
    ],
    second: Annotated[str, typer.Argument(help="The one that is judged.", metavar="B.json")],
    ignore: Annotated[
        list[str] | None,
        typer.Option(help="Compare although this field of the workload differs.", metavar="FIELD"),
    ] = None,
    max_regression: Annotated[
        float | None,
        typer.Option(help="Exit code 1 if a figure of B is worse by more, chance aside.", metavar="PERCENT", min=0),
    ] = None,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the comparison here.", metavar="FILE")] = None,
) -> None:
    """Compare two runs of the same work: figures, ratios, 95 % intervals, and what differed in how it was served.

    Intervals come from the requests' own values (`--save-detailed`) by bootstrap. Runs of different workloads are
    refused with exit code 2, and the fields that differ are named.

    \b
    Examples:
      antiphon bench compare before.json after.json
      antiphon bench compare ours.json vllm-omni.json --json comparison.json
      antiphon bench compare nightly.json#1 nightly.json#2 --max-regression 5
    """
    import json

    from antiphon.bench.compare.comparison import compare as compare_results
    from antiphon.bench.compare.comparison import comparison_document, render_comparison
    from antiphon.bench.compare.result_reading import read_result
    from antiphon.core.errors import ConfigError

    found = compare_results(read_result(first), read_result(second), ignored=ignore or [])
    typer.echo(render_comparison(found))
    if json_path is not None:
        text = json.dumps(comparison_document(found), indent=1, ensure_ascii=False)
        try:
            json_path.write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"--json {json_path}: {error.strerror}") from None
    if max_regression is not None and (worse := found.regressions(max_regression / 100)):
        typer.echo(f"\nworse by more than {max_regression:g} %: {'; '.join(worse)}", err=True)
        raise typer.Exit(1)
