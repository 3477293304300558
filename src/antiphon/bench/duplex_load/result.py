"""The JSON of a run of live sessions: the keys of the other backends where they fit, and those of sessions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isfinite
from statistics import fmean

from antiphon.bench.duplex_load.settings import NAME, DuplexSettings
from antiphon.bench.duplex_load.summary import FIGURES, DuplexSummary, samples_of
from antiphon.bench.duplex_load.timeline import SessionRecord, mean_of
from antiphon.bench.percentiles import percent_word
from antiphon.bench.settings import Level


@dataclass(frozen=True, kw_only=True)
class DuplexResult:
    """One level, measured."""

    level: Level
    summary: DuplexSummary
    records: Sequence[SessionRecord]
    server: Mapping[str, object]


def render_duplex_result(
    results: Sequence[DuplexResult], settings: DuplexSettings, facts: Mapping[str, object], *, is_detailed: bool
) -> dict[str, object]:
    """One flat object for one level; for several, *facts* and the list `levels` of such objects."""
    common = {
        "request_rate": settings.request_rate if isfinite(settings.request_rate) else "inf",
        "burstiness": settings.burstiness,
        "backend": NAME,
        "seed": settings.seed,
        "chunk_ms": settings.chunk_ms,
        "stagger_s": settings.stagger_s,
        **facts,
    }
    rendered = [_level(result, is_detailed=is_detailed) for result in results]
    return {**common, **rendered[0]} if len(rendered) == 1 else {**common, "levels": rendered}


def nearest_rank(values: Sequence[float]) -> dict[str, float | int] | None:
    """Count, mean and percentiles by nearest rank, as duplex metrics are stated; None for no values."""
    if not values:
        return None
    ordered = sorted(values)
    ranks = {f"p{percent}": ordered[max(0, ceil(percent / 100 * len(ordered)) - 1)] for percent in (50, 90, 99)}
    return {"count": len(ordered), "mean": fmean(ordered), **ranks}


def _level(result: DuplexResult, *, is_detailed: bool) -> dict[str, object]:
    summary = result.summary
    document: dict[str, object] = {
        "num_prompts": result.level.num_prompts,
        "max_concurrency": result.level.max_concurrency,
        "duration": summary.duration_s,
        "completed": summary.completed,
        "failed": summary.failed,
        "request_throughput": summary.per_s(summary.completed),
        "responses_per_s": summary.per_s(summary.num_responses),
        "total_output_tokens": summary.output_tokens,
        "output_throughput": summary.per_s(summary.output_tokens),
        "total_audio_duration_s": summary.audio_duration_s,
        "total_audio_frames": summary.num_audio_frames,
        "audio_throughput": summary.per_s(summary.audio_duration_s),
        "rtfx": summary.per_s(summary.audio_duration_s),
        "audio_continuity_ok_rate": summary.continuity_ok_rate,
        "num_units": summary.num_units,
        "num_units_answered": summary.num_units_answered,
        "num_units_spoken": summary.num_units_spoken,
        "num_units_late": summary.num_units_late,
        "num_responses": summary.num_responses,
        "num_slot_waits": summary.num_slot_waits,
        "num_unmatched_outputs": summary.num_unmatched,
        "worst_send_delay_ms": summary.worst_send_delay_s * 1000,
        "session_warnings": dict(summary.notices),
        "error_kinds": list(summary.errors),
    }
    for figure in FIGURES:
        found = summary.distributions.get(figure.name)
        if found is not None:
            document[f"mean_{figure.key}"] = found.mean * figure.scale
            document[f"median_{figure.key}"] = found.median * figure.scale
            for percent, value in found.percentiles:
                document[f"p{percent_word(percent)}_{figure.key}"] = value * figure.scale
    good = [record for record in result.records if record.error is None]
    samples = samples_of(good)
    for name in ("stream_ttft", "stream_ttfp"):
        document[f"duplex_{name}_ms"] = nearest_rank([value * 1000 for value in samples[name]])
    document["duplex_stream_rtf"] = nearest_rank(samples["stream_rtf"])
    document["duplex_request_metrics"] = [item for record in good for item in _responses(record)]
    document["duplex_session_metrics"] = [_session(record) for record in good]
    document["server"] = dict(result.server)
    return {**document, "duplex_units": [_units(record) for record in good]} if is_detailed else document


def _responses(record: SessionRecord) -> list[dict[str, object]]:
    return [
        {
            "session_id": record.session_id,
            "response_id": response.response_id,
            "status": response.status,
            "measurement_origin": response.origin,
            "ttft_ms": _ms(response.ttft_s),
            "ttfp_ms": _ms(response.ttfp_s),
            "rtf": response.rtf,
            "audio_duration_ms": response.audio_duration_s * 1000,
            "underrun_ms": response.underrun_s * 1000,
            "output_tokens": response.num_output_tokens,
        }
        for response in record.responses
    ]


def _session(record: SessionRecord) -> dict[str, object]:
    spoken = [response for response in record.responses if response.audios]
    return {
        "session_id": record.session_id,
        "audio_turn_count": len(spoken),
        "ttft_ms": nearest_rank([value * 1000 for response in spoken if (value := response.ttft_s) is not None]),
        "ttfp_ms": nearest_rank([value * 1000 for response in spoken if (value := response.ttfp_s) is not None]),
        "rtf": nearest_rank([value for response in spoken if (value := response.rtf) is not None]),
        "mean_unit_decision_ms": _ms(mean_of([unit.decision_s for unit in record.units])),
        "mean_unit_first_audio_ms": _ms(mean_of([unit.audio_s for unit in record.units])),
        "stage_metrics": dict(record.stage_metrics),
    }


def _units(record: SessionRecord) -> list[dict[str, object]]:
    return [
        {
            "decision_ms": _ms(unit.decision_s),
            "first_audio_ms": _ms(unit.audio_s),
            "lateness_ms": _ms(unit.lateness_s),
            "speaks": unit.has_spoken,
        }
        for unit in record.units
    ]


def _ms(value: float | None) -> float | None:
    return None if value is None else value * 1000
