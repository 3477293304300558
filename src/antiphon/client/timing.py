"""Times of a response from the arrivals of its events, and from what the server tells of its stages.

Milliseconds, rounded to three digits. The server's own times to first text and sound go before the client's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from antiphon.client.events import AudioDelta, DuplexEvent, ResponseCreated, TextDelta, TranscriptDelta
from antiphon.client.summaries import metric_mean, nearest_rank
from antiphon.wire.realtime.json_frame import JsonObject

_SOURCE = "client_monotonic_receive"
_STAGE_SOURCE = "engine_stage_metrics"
_AFTER_COMMIT = {
    "ttft": "input_audio_buffer.commit client send to first non-empty text delta",
    "ttfp": "input_audio_buffer.commit client send to first audio packet",
}
_AFTER_CREATED = {
    "ttft": "response.created client receive to first non-empty text delta",
    "ttfp": "response.created client receive to first audio packet",
}
_TPOT = "Stage-0 engine mean time per output token"
# A stage's figures as servers name them, and as reports do.
_STAGE_NAMES = {
    "num_tokens_out": "output_token_count",
    "vllm_ttft_ms": "ttft_ms",
    "vllm_tpot_ms": "tpot_ms",
    "vllm_itls_ms": "itls_ms",
    "stage_gen_time_ms": "stage_gen_time_ms",
    "serving_time_to_first_output_ms": "time_to_first_output_ms",
    "audio_generated_frames": "audio_generated_frames",
    "audio_duration_s": "audio_duration_s",
}
_NESTED = ("metadata", "response", "duplex_event", "vllm_omni")


@dataclass(frozen=True)
class Arrival:
    """An event, and when it came in seconds on the client's clock."""

    event: DuplexEvent
    at_s: float


def response_timing(
    arrivals: Sequence[Arrival], committed_at_s: float | None, origin: Mapping[str, str] | None
) -> JsonObject:
    """`stages`, `stage0_tokens`, `audio_output` and `request_metrics` of one response."""
    created_s = next((item.at_s for item in arrivals if isinstance(item.event, ResponseCreated)), None)
    begin_s = created_s if committed_at_s is None else committed_at_s
    audios = [item for item in arrivals if isinstance(item.event, AudioDelta)]
    stages = _stages(arrivals)
    durations = _chunk_durations_ms(audios)
    gaps = [(after.at_s - before.at_s) * 1000 for before, after in pairwise(audios)]
    summary: JsonObject = {"stages": stages} if stages else {}
    if "0" in stages:
        summary["stage0_tokens"] = stages["0"]
    if audios:
        summary["audio_output"] = {
            "source": _SOURCE,
            "chunk_count": len(audios),
            "response_created_to_first_audio_ms": _gap_ms(created_s, audios[0].at_s),
            "commit_to_first_audio_ms": _gap_ms(committed_at_s, audios[0].at_s),
            "inter_chunk_interval_ms": _spread(gaps),
            "chunk_duration_ms": _spread(durations),
            "max_chunk_gap_ms": round(max(gaps), 3) if gaps else None,
        }
    metrics = _request_metrics(arrivals, begin_s, _AFTER_CREATED if committed_at_s is None else _AFTER_COMMIT)
    if (tpot_ms := metric_mean(stages.get("0", {}).get("tpot_ms"))) is not None:
        metrics["tpot_ms"] = tpot_ms
    served = _served_times(arrivals)
    metrics |= {name: value for name, value in served.items() if name != "measurement_origin"}
    words = metrics["measurement_origin"]
    assert isinstance(words, dict)
    metrics["measurement_origin"] = {**words, "tpot": _TPOT, **_words(served), **(origin or {})}
    summary["request_metrics"] = metrics
    return summary


def window_timing(
    arrivals: Sequence[Arrival], begin_s: float, response_ids: Sequence[str], origin: Mapping[str, str]
) -> JsonObject:
    """The request metrics of several responses from the moment *begin_s*; their sound adds up."""
    metrics = _request_metrics(arrivals, begin_s, origin)
    parts = [[item for item in arrivals if item.event.response_id == one] for one in response_ids]
    durations = [_duration_ms([item for item in part if isinstance(item.event, AudioDelta)]) for part in parts]
    return {**metrics, "response_ids": list(response_ids), "audio_duration_ms": round(sum(durations), 3)}


def _request_metrics(arrivals: Sequence[Arrival], begin_s: float | None, origin: Mapping[str, str]) -> JsonObject:
    texts = [item for item in arrivals if isinstance(item.event, TranscriptDelta | TextDelta) and item.event.text]
    audios = [item for item in arrivals if isinstance(item.event, AudioDelta)]
    metrics: JsonObject = {"source": _SOURCE, "measurement_origin": dict(origin)}
    metrics["ttft_ms"] = _gap_ms(begin_s, texts[0].at_s) if texts else None
    metrics["ttfp_ms"] = _gap_ms(begin_s, audios[0].at_s) if audios else None
    metrics["audio_generation_ms"] = _gap_ms(begin_s, audios[-1].at_s) if audios else None
    metrics["audio_duration_ms"] = round(_duration_ms(audios), 3) if audios else None
    return metrics


def _gap_ms(begin_s: float | None, end_s: float) -> float | None:
    return None if begin_s is None else round((end_s - begin_s) * 1000, 3)


def _duration_ms(audios: Sequence[Arrival]) -> float:
    return sum(_chunk_durations_ms(audios))


def _chunk_durations_ms(audios: Sequence[Arrival]) -> list[float]:
    """The server's duration is that of the response so far; without one, the samples are counted."""
    durations: list[float] = []
    total_ms = 0.0
    for item in audios:
        event = item.event
        assert isinstance(event, AudioDelta)
        metadata = event.raw.get("metadata")
        told = metric_mean(metadata.get("audio_duration_ms")) if isinstance(metadata, dict) else None
        now_ms = total_ms + len(event.pcm) / 2 / (event.sample_rate_hz or 24_000) * 1000 if told is None else told
        durations.append(max(0.0, now_ms - total_ms))
        total_ms = max(total_ms, now_ms)
    return durations


def _spread(values: Sequence[float]) -> JsonObject | None:
    if not values:
        return None
    ordered = sorted(values)
    return {
        "count": len(ordered),
        "mean": round(sum(ordered) / len(ordered), 3),
        "p50": round(nearest_rank(ordered, 50), 3),
        "p95": round(nearest_rank(ordered, 95), 3),
        "max": round(ordered[-1], 3),
    }


def _stages(arrivals: Sequence[Arrival]) -> dict[str, JsonObject]:
    """By stage, the newest figures: each is for the response so far."""
    newest: dict[str, JsonObject] = {}
    for item in arrivals:
        for place in _places(item.event.raw):
            stages = place.get("stage_metrics")
            for stage, figures in stages.items() if isinstance(stages, dict) else ():
                if isinstance(figures, dict):
                    newest[str(stage)] = figures
    return {stage: _stage(figures) for stage, figures in sorted(newest.items())}


def _stage(figures: JsonObject) -> JsonObject:
    found: JsonObject = {"source": _STAGE_SOURCE}
    found |= {name: figures[key] for key, name in _STAGE_NAMES.items() if figures.get(key) is not None}
    gaps = found.get("itls_ms")
    if isinstance(gaps, list) and gaps:
        found["inter_token_interval_ms"] = _spread([float(gap) for gap in gaps])
    return found


def _served_times(arrivals: Sequence[Arrival]) -> JsonObject:
    """The server's own times to first text and sound, where it tells them with their origin."""
    for item in reversed(arrivals):
        for place in _places(item.event.raw):
            told = place.get("response_request_metrics")
            if isinstance(told, dict) and isinstance(told.get("measurement_origin"), dict):
                return {key: told[key] for key in ("ttft_ms", "ttfp_ms", "measurement_origin") if key in told}
    return {}


def _words(served: JsonObject) -> dict[str, object]:
    found = served.get("measurement_origin")
    return found if isinstance(found, dict) else {}


def _places(event: JsonObject) -> Iterator[JsonObject]:
    """Wherever in an event servers put their figures."""
    yield event
    for key in _NESTED:
        inner = event.get(key)
        if isinstance(inner, dict):
            yield from _places(inner)
