"""The JSON result of a run, with the keys of vLLM-Omni's result files and what else is needed to repeat the run."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from antiphon.bench.percentiles import percent_word
from antiphon.bench.request_metrics import measure
from antiphon.bench.settings import Level, RunSettings
from antiphon.bench.summary import LevelSummary
from antiphon.bench.timeline import RequestRecord
from antiphon.core.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class LevelResult:
    """One level, measured. `server` is what the server told about itself and its counters over the level."""

    level: Level
    summary: LevelSummary
    records: Sequence[RequestRecord]
    server: Mapping[str, object]


def render_result(
    results: Sequence[LevelResult], settings: RunSettings, facts: Mapping[str, object], *, is_detailed: bool
) -> dict[str, object]:
    """One flat object for one level; for several, *facts* and the list `levels` of such objects.

    Args:
        facts: what describes the run: date, model, data set, command.
        is_detailed: with the lists that have one entry per request.
    """
    common = {
        "request_rate": settings.request_rate if isfinite(settings.request_rate) else "inf",
        "burstiness": settings.burstiness,
        "backend": settings.backend.value,
        "seed": settings.seed,
        **facts,
    }
    rendered = [_render_level(result, settings, is_detailed=is_detailed) for result in results]
    return {**common, **rendered[0]} if len(rendered) == 1 else {**common, "levels": rendered}


def write_result(document: Mapping[str, object], path: Path, *, has_append: bool) -> None:
    """Write *document* to *path*, as a further line if *has_append*.

    Raises:
        ConfigError: the file cannot be written.
    """
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if has_append:
            with path.open("a", encoding="utf-8") as file:
                file.write(text + "\n")
        else:
            part = path.with_name(f"{path.name}.part")
            part.write_text(text + "\n", encoding="utf-8")
            os.replace(part, path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror})") from None


def _render_level(result: LevelResult, settings: RunSettings, *, is_detailed: bool) -> dict[str, object]:
    summary = result.summary
    document: dict[str, object] = {
        "num_prompts": result.level.num_prompts,
        "max_concurrency": result.level.max_concurrency,
        "duration": summary.duration_s,
        "completed": summary.completed,
        "failed": summary.failed,
        "total_input_tokens": summary.prompt_tokens,
        "total_output_tokens": summary.output_tokens,
        "request_throughput": summary.per_s(summary.completed),
        "request_goodput": None if summary.num_good is None else summary.per_s(summary.num_good),
        "output_throughput": summary.per_s(summary.output_tokens),
        "total_token_throughput": summary.per_s(summary.prompt_tokens + summary.output_tokens),
        "total_audio_duration_s": summary.audio_duration_s,
        "total_audio_frames": summary.num_audio_frames,
        "audio_throughput": summary.per_s(summary.audio_duration_s),
        "rtfx": summary.per_s(summary.audio_duration_s),
        "max_output_tokens_per_s": summary.peak_tokens_per_s,
        "max_concurrent_requests": summary.peak_concurrency,
        "audio_continuity_ok_rate": summary.continuity_ok_rate,
        "audio_continuity_threshold_s": settings.continuity_threshold_s,
        "num_requests_without_audio": summary.num_without_audio,
        "num_dropped_audio_chunks": summary.num_dropped_audio,
        "num_transport_retries": summary.num_retries,
        "worst_lateness_s": summary.worst_lateness_s if isfinite(settings.request_rate) else None,
        "error_kinds": list(summary.errors),
    }
    spoken = summary.completed - summary.num_without_audio if summary.continuity_ok_rate is not None else 0
    for name in ("ttft", "tpot", "itl", "audio_ttfp", "audio_rtf"):
        found = summary.distributions.get(name)
        document[f"num_{name}_samples"] = spoken if name.startswith("audio") else found.count if found else 0
    for metric in settings.metrics:
        distribution = summary.distributions.get(metric.name)
        if distribution is None:
            continue
        document[f"mean_{metric.key}"] = distribution.mean * metric.scale
        document[f"median_{metric.key}"] = distribution.median * metric.scale
        for percent, value in distribution.percentiles:
            document[f"p{percent_word(percent)}_{metric.key}"] = value * metric.scale
    document |= _render_stages(summary)
    document["server"] = dict(result.server)
    return document | _render_details(result.records) if is_detailed else document


def _render_stages(summary: LevelSummary) -> dict[str, object]:
    """Milliseconds by stage id, under a key for the mean and one for each percentile."""
    document: dict[str, dict[str, float]] = {}
    for stage, figures in summary.stages.items():
        if (duration := figures.duration_ms) is None:
            continue
        document.setdefault("stage_durations_mean", {})[stage] = duration.mean
        for percent, value in duration.percentiles:
            document.setdefault(f"stage_durations_p{percent_word(percent)}", {})[stage] = value
    return dict(document)


def _render_details(records: Sequence[RequestRecord]) -> dict[str, object]:
    origin_s = min((record.started_s for record in records), default=0.0)
    metrics = [measure(record) for record in records]
    return {
        "input_lens": [item.prompt_tokens for item in metrics],
        "output_lens": [item.output_tokens for item in metrics],
        "start_times": [record.started_s - origin_s for record in records],
        "ttfts": [item.ttft_s for item in metrics],
        "itls": [list(item.itl_s) for item in metrics],
        "e2els": [item.e2el_s for item in metrics],
        "audio_ttfps": [item.audio_ttfp_s for item in metrics],
        "audio_rtfs": [item.audio_rtf for item in metrics],
        "audio_durations": [item.audio_duration_s for item in metrics],
        "audio_underruns": [item.audio_underrun_s for item in metrics],
        "generated_texts": [record.answer.text for record in records],
        "errors": [record.answer.error or "" for record in records],
        "request_stage_metrics": [dict(record.answer.stage_metrics) for record in records],
    }
