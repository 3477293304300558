"""The figures of one level, from its records: what tables print and result files keep."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from antiphon.bench.metric_names import METRICS, MetricName
from antiphon.bench.peaks import peak_concurrency, peak_tokens_per_s
from antiphon.bench.percentiles import Distribution, describe
from antiphon.bench.request_metrics import RequestMetrics, measure
from antiphon.bench.stage_summary import StageSummary, summarise_stages
from antiphon.bench.timeline import RequestRecord


@dataclass(frozen=True, kw_only=True)
class LevelSummary:
    """One level. Rates are per second of `duration_s`, the wall time from the first send to the last end.

    Attributes:
        distributions: by metric name, in seconds (RTF: a ratio); a metric without a sample is absent.
        continuity_ok_rate: share of the requests with sound whose underrun stays within the threshold.
        num_without_audio: successful requests without sound while others have some; they count as 0 in audio figures.
        worst_lateness_s: the most that a request was sent after its arrival was due: what latencies do not show when
            arrivals outrun --max-concurrency.
    """

    duration_s: float
    completed: int
    failed: int
    num_retries: int
    prompt_tokens: int
    output_tokens: int
    num_good: int | None
    audio_duration_s: float
    num_audio_frames: int
    num_dropped_audio: int
    num_without_audio: int
    continuity_ok_rate: float | None
    peak_tokens_per_s: float
    peak_concurrency: int
    worst_lateness_s: float
    distributions: Mapping[str, Distribution]
    stages: Mapping[str, StageSummary]
    errors: tuple[str, ...]

    def per_s(self, amount: float) -> float:
        return amount / self.duration_s if self.duration_s > 0 else 0.0


def summarise(
    records: Sequence[RequestRecord],
    *,
    duration_s: float,
    percents: Sequence[float],
    goodput_s: Mapping[str, float],
    continuity_threshold_s: float,
) -> LevelSummary:
    """Summarise *records*; failed requests count as failed and give no sample."""
    pairs = [(record, measure(record)) for record in records if record.answer.error is None]
    metrics = [item for _, item in pairs]
    spoken = [item for item in metrics if item.audio_ttfp_s is not None]
    smooth = [item for item in spoken if item.audio_underrun_s <= continuity_threshold_s]
    samples = {name: _samples(metric, metrics, has_audio=bool(spoken)) for name, metric in METRICS.items()}
    good = [item for item in metrics if _is_good(item, goodput_s)]
    return LevelSummary(
        duration_s=duration_s,
        completed=len(pairs),
        failed=len(records) - len(pairs),
        num_retries=sum(record.num_retries for record in records),
        prompt_tokens=sum(item.prompt_tokens for item in metrics),
        output_tokens=sum(item.output_tokens for item in metrics),
        num_good=len(good) if goodput_s else None,
        audio_duration_s=sum(item.audio_duration_s for item in metrics),
        num_audio_frames=sum(item.num_audio_frames for item in metrics),
        num_dropped_audio=sum(record.answer.num_dropped_audio for record in records),
        num_without_audio=len(metrics) - len(spoken) if spoken else 0,
        continuity_ok_rate=len(smooth) / len(spoken) if spoken else None,
        peak_tokens_per_s=peak_tokens_per_s(pairs),
        peak_concurrency=peak_concurrency(records),
        worst_lateness_s=max((record.started_s - record.due_s for record in records), default=0.0),
        distributions={
            name: found for name, values in samples.items() if (found := describe(values, percents)) is not None
        },
        stages=summarise_stages([record.answer.stage_metrics for record, _ in pairs], percents),
        errors=tuple(sorted({record.answer.error for record in records if record.answer.error})),
    )


def values_of(metric: MetricName, metrics: RequestMetrics) -> tuple[float, ...]:
    """The samples that one request gives: none, one, or one per token for `itl`."""
    if metric.name == "itl":
        return metrics.itl_s
    value = {
        "ttft": metrics.ttft_s,
        "tpot": metrics.tpot_s,
        "e2el": metrics.e2el_s,
        "audio_ttfp": metrics.audio_ttfp_s,
        "audio_rtf": metrics.audio_rtf,
        "audio_duration": metrics.audio_duration_s,
        "audio_underrun": metrics.audio_underrun_s,
    }[metric.name]
    return () if value is None else (value,)


def _samples(metric: MetricName, metrics: Sequence[RequestMetrics], *, has_audio: bool) -> list[float]:
    if not metric.is_audio:
        return [value for item in metrics for value in values_of(metric, item)]
    # As the reference counts: in a run with sound, a request without any is a 0 in every audio metric.
    return [value for item in metrics for value in values_of(metric, item) or (0.0,)] if has_audio else []


def _is_good(item: RequestMetrics, limits_s: Mapping[str, float]) -> bool:
    """Within every limit. One token has no time per token and meets it; a missing first token or packet meets none."""
    for name, limit_s in limits_s.items():
        values = values_of(METRICS[name], item)
        if name != "tpot" and not values:
            return False
        if values and max(values) > limit_s:
            return False
    return True
