"""`antiphon bench serve --backend openai-realtime-duplex`: reads its flags, runs live sessions, reports."""

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from antiphon import __version__
from antiphon.bench.datasets import seed_tts
from antiphon.bench.datasets.catalogue import open_dataset
from antiphon.bench.datasets.seed_tts import SeedTtsOptions
from antiphon.bench.duplex_load.clips import Clips, MadeSpeech, make_clips, read_clips, spoken_texts
from antiphon.bench.duplex_load.result import DuplexResult, render_duplex_result
from antiphon.bench.duplex_load.run import DuplexProgress, DuplexRun, run_duplex_benchmark
from antiphon.bench.duplex_load.settings import ALIAS, DEFAULT_PERCENTILES, ENDPOINT, NAME, DuplexSettings
from antiphon.bench.duplex_load.table import render_duplex_sweep, render_duplex_table
from antiphon.bench.duplex_load.timeline import SessionRecord
from antiphon.bench.metric_names import parse_percentiles
from antiphon.bench.result_file import write_result
from antiphon.bench.settings import Target, parse_levels
from antiphon.cli.bench_report import check_plot, without_secrets
from antiphon.cli.bench_setup import check_rate, parse_base_url, parse_extra_body, parse_headers, parse_metadata
from antiphon.core.errors import ConfigError

DATASETS = ("random", "wav", "seed-tts")
_DUPLEX_ONLY = "duplex_"
# What other backends have and live sessions have not; given beside this backend they are refused.
_OTHERS = frozenset(
    {
        "output_len",
        "tokenizer",
        "no_oversample",
        "random_input_len",
        "random_output_len",
        "random_prefix_len",
        "random_range_ratio",
        "random_mm_base_items_per_request",
        "random_mm_num_mm_items_range_ratio",
        "random_mm_limit_mm_per_prompt",
        "random_mm_bucket_config",
        "seed_tts_system_prompt",
        "daily_omni_qa_json",
        "daily_omni_video_dir",
        "daily_omni_inline_local_video",
        "daily_omni_input_mode",
        "daily_omni_pack_mode",
        "ignore_eos",
        "top_p",
        "top_k",
        "min_p",
        "frequency_penalty",
        "presence_penalty",
        "repetition_penalty",
        "percentile_metrics",
        "goodput",
    }
)


def is_duplex(backend: str) -> bool:
    return backend in (NAME, ALIAS)


def check_chat_flags(ctx: typer.Context) -> None:
    """Raises ConfigError for a flag of live sessions beside another backend."""
    _refuse([name for name in _given(ctx) if name.startswith(_DUPLEX_ONLY)], f"--backend {ctx.params['backend']}")


def serve_duplex(ctx: typer.Context) -> bool:
    """Run and report; whether no session failed.

    Raises:
        ConfigError: a flag is out of range, or of another backend.
        ServerError: the server cannot be used at all.
    """
    flags, given = ctx.params, _given(ctx)
    _refuse([name for name in given if name in _OTHERS], f"--backend {flags['backend']}")
    check_rate(flags["request_rate"], flags["burstiness"])
    check_plot(flags["plot"])
    extra = dict(parse_extra_body(flags["extra_body"], flags["modalities"]))
    if flags["temperature"] is not None:
        extra["temperature"] = flags["temperature"]
    levels = parse_levels(flags["max_concurrency"], flags["num_prompts"] if "num_prompts" in given else "1")
    timeout_s = flags["omni_request_timeout_s"]
    settings = DuplexSettings(
        levels=levels,
        request_rate=flags["request_rate"],
        burstiness=flags["burstiness"],
        num_warmups=flags["num_warmups"],
        seed=flags["seed"],
        chunk_ms=flags["duplex_chunk_ms"],
        stagger_s=flags["duplex_stagger_s"],
        timeout_s=timeout_s if timeout_s > 0 else 6 * 3600.0,
        ready_timeout_s=flags["ready_check_timeout_sec"],
        percentiles=parse_percentiles(flags["metric_percentiles"])
        if "metric_percentiles" in given
        else DEFAULT_PERCENTILES,
        continuity_threshold_s=flags["continuity_threshold_s"],
        session=extra,
        has_stage_metrics=flags["print_stage"],
    )
    target = Target(
        base_url=parse_base_url(flags["base_url"], flags["host"], flags["port"]),
        endpoint=flags["endpoint"] or ENDPOINT,
        headers=parse_headers(flags["header"] or [], flags["api_key"]),
    )
    metadata = parse_metadata(flags["metadata"] or [])
    clips = _clips(flags)
    model = flags["served_model_name"] or flags["model"]
    with _shown(is_shown=not flags["disable_tqdm"]) as progress:
        run = asyncio.run(run_duplex_benchmark(clips, target, settings, progress, model=model))
    _report(run, settings, target, flags, metadata)
    return all(result.summary.failed == 0 for result in run.results)


def _clips(flags: Mapping[str, Any]) -> Clips:
    name, folder = flags["dataset_name"], flags["dataset_path"]
    if name == "random":
        made = MadeSpeech(
            session_s=flags["duplex_session_s"], talk_s=flags["duplex_talk_s"], pause_s=flags["duplex_pause_s"]
        )
        return make_clips(made, flags["seed"])
    if name not in DATASETS:
        raise ConfigError(f"--dataset-name is {name!r}; known for live sessions: {', '.join(DATASETS)}")
    root = folder or (flags["seed_tts_root"] if name == "seed-tts" else None)
    if root is None:
        raise ConfigError(f"--dataset-name {name} needs --dataset-path")
    is_shuffled = not flags["disable_shuffle"]
    if name == "wav":
        return read_clips(root, flags["duplex_session_s"], flags["seed"], is_shuffled=is_shuffled)
    options = SeedTtsOptions(
        root=root,
        locale=flags["seed_tts_locale"],
        is_inline=not flags["seed_tts_file_ref_audio"],
        system_prompt=seed_tts.SYSTEM_PROMPT,
    )
    return spoken_texts(open_dataset(options, seed=flags["seed"], is_shuffled=is_shuffled, is_repeated=True))


def _report(
    run: DuplexRun, settings: DuplexSettings, target: Target, flags: Mapping[str, Any], metadata: Mapping[str, str]
) -> None:
    if len(run.results) > 1:
        typer.echo("\n" + render_duplex_sweep([(result.level, result.summary) for result in run.results]))
    label = flags["label"] or NAME
    is_detailed = flags["save_detailed"]
    if flags["save_result"] or is_detailed or flags["append_result"] or flags["result_filename"]:
        now = datetime.now().astimezone()
        facts: dict[str, object] = {
            "date": now.isoformat(timespec="seconds"),
            "label": label,
            "model_id": run.model,
            "base_url": target.base_url,
            "endpoint": target.endpoint,
            "dataset": flags["dataset_name"],
            "num_warmups": settings.num_warmups,
            "session": {key: value for key, value in settings.session.items() if key != "ref_audio"},
            "command": ["antiphon", *without_secrets(sys.argv[1:])],
            "client_version": __version__,
            **metadata,
        }
        document = render_duplex_result(run.results, settings, facts, is_detailed=is_detailed)
        stem = f"{label}-{run.model.rstrip('/').split('/')[-1]}-{now.strftime('%Y%m%d-%H%M%S')}"
        path: Path = flags["result_dir"] / (flags["result_filename"] or f"{stem}.json")
        write_result(document, path, has_append=flags["append_result"])
        typer.echo(f"saved {path}", err=True)
    if flags["plot"] is not None:
        from antiphon.bench.duplex_load.plot import draw_duplex_run

        draw_duplex_run(run.results, f"{label}: {run.model}, {flags['dataset_name']}", flags["plot"])
        typer.echo(f"drew {flags['plot']}", err=True)


@contextmanager
def _shown(*, is_shown: bool) -> Iterator[DuplexProgress]:
    """How far a run is, on stderr if it is a terminal, and the report of each level on stdout."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    is_disabled = not (is_shown and sys.stderr.isatty())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=is_disabled) as bar:

        def begin(name: str, total: int) -> None:
            for task in bar.task_ids:
                bar.remove_task(task)
            bar.add_task(name, total=total)

        def advance(_record: SessionRecord) -> None:
            bar.update(bar.task_ids[0], advance=1)

        def report(result: DuplexResult) -> None:
            for task in bar.task_ids:
                bar.remove_task(task)
            typer.echo(render_duplex_table(result.summary, result.level))
            for error in result.summary.errors[:5]:
                typer.echo(f"failed: {error}", err=True)

        yield DuplexProgress(begin=begin, advance=advance, report=report)


def _given(ctx: typer.Context) -> list[str]:
    """Parameters that were typed."""
    return [name for name in ctx.params if str(ctx.get_parameter_source(name)).endswith("COMMANDLINE")]


def _refuse(names: Sequence[str], where: str) -> None:
    if names:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in names)
        raise ConfigError(f"{flags}: without effect with {where}; leave it out")
