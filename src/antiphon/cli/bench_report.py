"""Runs a benchmark with progress on stderr, prints its tables, and writes the result file and the plot."""

import asyncio
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from math import isfinite
from pathlib import Path

import typer

from antiphon import __version__
from antiphon.bench.bench_request import BodyOptions
from antiphon.bench.recount import load_counter
from antiphon.bench.result_file import LevelResult, render_result, write_result
from antiphon.bench.run import Requests, Run, run_benchmark
from antiphon.bench.settings import RunSettings, Target
from antiphon.bench.sweep_table import render_sweep
from antiphon.bench.table import render_table
from antiphon.cli.bench_progress import shown_progress
from antiphon.core.errors import ConfigError

_SECRET_FLAGS = ("--api-key", "--header")
_HIDDEN = "…"
_PLOT_ENDINGS = (".png", ".svg", ".pdf")


@dataclass(frozen=True, kw_only=True)
class Report:
    """What is written besides the tables."""

    label: str
    dataset: str
    tokenizer: Path | None
    is_saved: bool
    is_detailed: bool
    has_append: bool
    folder: Path
    filename: str
    metadata: Mapping[str, str]
    plot: Path | None
    has_progress: bool


def check_plot(plot: Path | None) -> None:
    """Refuse a plot that could not be drawn before anything is measured.

    Raises:
        ConfigError: matplotlib is not installed, or the ending is not of a picture.
    """
    if plot is None:
        return
    if plot.suffix.lower() not in _PLOT_ENDINGS:
        raise ConfigError(f"--plot {plot}: the name must end in {', '.join(_PLOT_ENDINGS)}")
    if find_spec("matplotlib") is None:
        raise ConfigError("--plot needs matplotlib; install it with: pip install 'antiphon[bench]'")


def measure_and_report(
    requests: Requests, target: Target, body: BodyOptions, settings: RunSettings, report: Report
) -> bool:
    """Run everything; whether no request failed."""
    count_tokens = load_counter(report.tokenizer) if report.tokenizer else None

    def table(result: LevelResult) -> str:
        return render_table(result.summary, result.level, settings)

    with shown_progress(table, is_shown=report.has_progress) as progress:
        run = asyncio.run(run_benchmark(requests, target, body, settings, progress, count_tokens=count_tokens))
    if len(run.results) > 1:
        typer.echo("\n" + render_sweep(run.results))
    if report.is_saved:
        path = _save(run, target, body, settings, report)
        typer.echo(f"saved {path}", err=True)
    if report.plot is not None:
        from antiphon.bench.plot import draw_run

        draw_run(run.results, f"{report.label}: {run.model}, {report.dataset}", report.plot)
        typer.echo(f"drew {report.plot}", err=True)
    return all(result.summary.failed == 0 for result in run.results)


def without_secrets(args: Sequence[str]) -> list[str]:
    """*args* with the values of the options that may hold a key left out: result files are passed on."""
    kept: list[str] = []
    is_hidden = False
    for arg in args:
        kept.append(_HIDDEN if is_hidden else arg)
        is_hidden = arg in _SECRET_FLAGS and not is_hidden
        if arg.partition("=")[0] in _SECRET_FLAGS and "=" in arg:
            kept[-1] = f"{arg.partition('=')[0]}={_HIDDEN}"
    return kept


def _save(run: Run, target: Target, body: BodyOptions, settings: RunSettings, report: Report) -> Path:
    now = datetime.now().astimezone()
    facts: dict[str, object] = {
        "date": now.isoformat(timespec="seconds"),
        "label": report.label,
        "model_id": run.model,
        "tokenizer_id": str(report.tokenizer) if report.tokenizer else None,
        "base_url": target.base_url,
        "endpoint": target.endpoint,
        "dataset": report.dataset,
        "num_warmups": settings.num_warmups,
        "sampling": dict(body.sampling),
        "extra_body": dict(body.extra_body),
        "command": ["antiphon", *without_secrets(sys.argv[1:])],
        "client_version": __version__,
        **report.metadata,
    }
    document = render_result(run.results, settings, facts, is_detailed=report.is_detailed)
    path = report.folder / (report.filename or _file_name(run, settings, report, now))
    write_result(document, path, has_append=report.has_append)
    return path


def _file_name(run: Run, settings: RunSettings, report: Report, now: datetime) -> str:
    rate = f"{settings.request_rate:g}qps" if isfinite(settings.request_rate) else "infqps"
    limits = "-".join(str(level.max_concurrency) for level in settings.levels if level.max_concurrency)
    words = [report.label, rate, *([f"concurrency{limits}"] if limits else []), run.model.rstrip("/").split("/")[-1]]
    stem = "-".join([*words, now.strftime("%Y%m%d-%H%M%S")])
    return re.sub(r"[^\w.+-]+", "_", stem) + ".json"
