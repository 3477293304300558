"""Runs `antiphon duplex`: reads the files, shows what is going on, writes the results."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from antiphon.client.config import SessionConfig, create_duplex_session_config
from antiphon.client.duplex import DuplexClient
from antiphon.client.file_run.input import read_input
from antiphon.client.file_run.listener import Listener
from antiphon.client.file_run.report import RunFiles, summarise_run
from antiphon.client.file_run.run import Report, RunPlan, RunRecord, run_file
from antiphon.client.media import audio_data_url
from antiphon.wire.realtime.json_frame import JsonObject

_SHOWN_CHARS = 40


@dataclass(frozen=True, kw_only=True)
class DuplexJob:
    """A checked command line."""

    source: Path
    url: str
    folder: Path
    model: str | None
    api_key: str | None
    instructions: str | None
    reference: Path | None
    is_text_only: bool
    temperature: float | None
    chunk_ms: int
    is_realtime: bool
    frame_max_side: int
    num_stacked: int
    max_trailing_silence_ms: int
    timeout_s: float
    barge_in_at_s: float | None
    interruption: Path | None
    requires_audio: bool


def run_job(job: DuplexJob) -> bool:
    """Run it; whether it went well.

    Raises:
        AntiphonError: a file cannot be read or written, or the server refuses the session.
    """
    plan = RunPlan(
        source=read_input(job.source, frame_max_side=job.frame_max_side, num_stacked=job.num_stacked),
        chunk_ms=job.chunk_ms,
        is_realtime=job.is_realtime,
        max_trailing_silence_ms=job.max_trailing_silence_ms,
        timeout_s=job.timeout_s,
        barge_in_at_s=job.barge_in_at_s,
        interruption=None if job.interruption is None else read_input(job.interruption),
    )
    config = _config(job)
    with _shown(plan) as report:
        record = asyncio.run(_run(job, plan, config, report))
    result = summarise_run(plan, record, job.folder, requires_audio=job.requires_audio)
    RunFiles(folder=job.folder).write(record, result)
    Console(soft_wrap=True).print(_table(result))
    return bool(result["ok"])


def _config(job: DuplexJob) -> SessionConfig:
    return create_duplex_session_config(
        ref_audio=None if job.reference is None else audio_data_url(job.reference),
        modalities=("text",) if job.is_text_only else ("audio", "text"),
        instructions=job.instructions,
        temperature=job.temperature,
        extra_body={"return_stage_metrics": True},
    )


async def _run(job: DuplexJob, plan: RunPlan, config: SessionConfig, report: Report) -> RunRecord:
    async with DuplexClient(job.url, model=job.model, config=config, api_key=job.api_key) as client:
        return await run_file(client, plan, report)


@contextmanager
def _shown(plan: RunPlan) -> Iterator[Report]:
    """A line on stderr that follows the run, if stderr is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:.1f} s sent"))
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("listening", total=plan.source.duration_s)

        def report(listener: Listener, sent_s: float) -> None:
            said = listener.transcript[-_SHOWN_CHARS:]
            state = f"speaking: {escape(said)}" if listener.is_speaking else "listening"
            bar.update(task, completed=sent_s, description=state)

        yield report


def _table(result: JsonObject) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    latency, barge_in = result["latency"], result["barge_in"]
    assert isinstance(latency, dict)
    rows: list[tuple[str, object]] = [
        ("decision", result["model_decision"]),
        ("transcript", result["transcript"] or "(nothing)"),
        ("TTFT ms", latency.get("ttft_ms")),
        ("TTFP ms", latency.get("ttfp_ms")),
        ("RTF", latency.get("rtf")),
        ("speech s", latency.get("audio_duration_s")),
        ("underrun s", result["playback_underrun_s"]),
    ]
    if isinstance(barge_in, dict):
        stopped = f"after {barge_in['heard_s']} s heard, silent {barge_in['stop_ms']} ms later"
        rows.append(("barge-in", stopped if barge_in["happened"] else "the answer was over before"))
    errors = result["errors"]
    assert isinstance(errors, list)
    rows += [("error", f"{error['code']}: {error['message']}") for error in errors if isinstance(error, dict)]
    if result["timed_out"]:
        rows.append(("error", "the answer took too long; see --timeout-s"))
    rows.append(("files", result["output_dir"]))
    for name, value in rows:
        table.add_row(name, escape("-" if value is None else str(value)))
    return table
