"""Figures of many responses: distributions, by session and by stage, in the shapes that vLLM-Omni's tools read."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from statistics import fmean

from antiphon.client.errors import DuplexClientError
from antiphon.wire.realtime.json_frame import JsonObject

_POLL_S = 0.02


def distribution_summary(values: Sequence[float], *, digits: int = 3) -> dict[str, float | int] | None:
    """Count, mean, and the median and 99th percentile by nearest rank; None for no values."""
    if not values:
        return None
    ordered = sorted(values)
    return {
        "count": len(ordered),
        "mean": round(fmean(ordered), digits),
        "p50": round(nearest_rank(ordered, 50), digits),
        "p99": round(nearest_rank(ordered, 99), digits),
    }


def nearest_rank(ordered: Sequence[float], percent: float) -> float:
    """The smallest of the ascending values that at least *percent* of them do not exceed."""
    return ordered[max(0, ceil(percent / 100 * len(ordered)) - 1)]


def metric_mean(value: object) -> float | None:
    """A number, or the mean of a distribution; None for anything else."""
    found = value.get("mean") if isinstance(value, dict) else value
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def summarize_session_request_metrics(
    request_metrics: Sequence[Mapping[str, object]], *, session_id: str | None
) -> JsonObject:
    """One session from the `request_metrics` of its responses: times to text and sound, and time over sound."""
    spoken = [item for item in request_metrics if metric_mean(item.get("ttfp_ms")) is not None]
    ratios = []
    for item in spoken:
        made_ms, duration_ms = metric_mean(item.get("audio_generation_ms")), metric_mean(item.get("audio_duration_ms"))
        if made_ms is not None and duration_ms:
            ratios.append(made_ms / duration_ms)
    return {
        "session_id": session_id,
        "audio_turn_count": len(spoken),
        "ttft_ms": distribution_summary(_values(spoken, "ttft_ms")),
        "ttfp_ms": distribution_summary(_values(spoken, "ttfp_ms")),
        "rtf": distribution_summary(ratios),
    }


def summarize_stage_metrics(timings: Sequence[Mapping[str, object]]) -> dict[str, JsonObject] | None:
    """Each stage's times over several `timing_summary` results; None if no server told any."""
    found: dict[str, dict[str, list[float]]] = {}
    for timing in timings:
        stages = timing.get("stages")
        for stage, figures in stages.items() if isinstance(stages, dict) else ():
            for name, value in figures.items():
                if name.endswith("_ms") and (number := metric_mean(value)) is not None:
                    found.setdefault(stage, {}).setdefault(name, []).append(number)
    return {
        stage: {name: distribution_summary(values) for name, values in figures.items()}
        for stage, figures in found.items()
    } or None


def chunk_period_ms(events: Sequence[Mapping[str, object]], *, default: int = 1000) -> int:
    """The length of a unit, from the newest session object among raw *events*."""
    for event in reversed(events):
        session = event.get("session")
        capabilities = session.get("capabilities") if isinstance(session, dict) else None
        period = capabilities.get("chunk_period_ms") if isinstance(capabilities, dict) else None
        if isinstance(period, int) and period > 0:
            return period
    return default


async def wait_for_condition(predicate: Callable[[], bool], *, timeout_s: float, label: str) -> None:
    """Wait until *predicate* holds. Raises DuplexClientError that names *label*."""
    clock = asyncio.get_running_loop().time
    end_s = clock() + timeout_s
    while not predicate():
        if clock() >= end_s:
            raise DuplexClientError(f"{label} did not happen within {timeout_s:g} s")
        await asyncio.sleep(_POLL_S)


def _values(items: Sequence[Mapping[str, object]], name: str) -> list[float]:
    return [number for item in items if (number := metric_mean(item.get(name))) is not None]
