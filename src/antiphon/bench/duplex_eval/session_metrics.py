"""`duplex_metrics.json`: latencies of responses and streams, merged over runs by split and sample."""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from statistics import fmean

from antiphon.bench.duplex_eval.session import SessionRecord
from antiphon.bench.duplex_eval.transcript import ResponseTimes

METRICS_FILE = "duplex_metrics.json"
_REQUESTS, _SESSIONS = "duplex_request_metrics", "duplex_session_metrics"
_STREAM_KEYS = ("ttft_ms", "ttfp_ms", "rtf")

Row = Mapping[str, object]


def session_rows(record: SessionRecord, split: str, sample_id: str) -> tuple[list[Row], Row]:
    """Rows of the responses that said something, and of the session. What was not measured is null."""
    identity = {"split": split, "sample_id": sample_id, "session_id": record.session_id}
    responses = [response for response in record.transcript.responses.values() if response.first_text_s is not None]
    requests: list[Row] = [{**identity, **_response_row(response)} for response in responses]
    return requests, {**identity, **_stream_row(responses), "num_listens": record.transcript.num_listens}


def merge_metrics(known: Mapping[str, object], requests: Sequence[Row], sessions: Sequence[Row]) -> dict[str, object]:
    """*known*, with the rows of the samples in *sessions* replaced, and the distributions computed anew."""
    fresh = {_identity(row) for row in sessions}
    merged: dict[str, list[Row]] = {}
    for key, rows in ((_REQUESTS, requests), (_SESSIONS, sessions)):
        earlier = known.get(key)
        kept = [row for row in earlier if isinstance(row, dict)] if isinstance(earlier, list) else []
        merged[key] = [*(row for row in kept if _identity(row) not in fresh), *rows]
    distributions = {
        f"duplex_stream_{key}": distribution(row.get(f"stream_{key}") for row in merged[_SESSIONS])
        for key in _STREAM_KEYS
    }
    return {**merged, **distributions}


def distribution(values: Iterable[object]) -> dict[str, float | int] | None:
    """Count, mean, median and 99th percentile (nearest rank) of the numbers in *values*; None without one."""
    numbers = sorted(float(value) for value in values if isinstance(value, (int, float)))
    if not numbers:
        return None
    return {
        "count": len(numbers),
        "mean": fmean(numbers),
        "p50": _nearest_rank(numbers, 50),
        "p99": _nearest_rank(numbers, 99),
    }


def _response_row(response: ResponseTimes) -> dict[str, object]:
    """From the server's stamp of the request's start where it tells one, else from `response.created`."""
    own_ttft, own_ttfp = (
        None if at_s is None else 1000 * (at_s - response.created_s)
        for at_s in (response.first_text_s, response.first_audio_s)
    )
    return {
        "response_id": response.response_id,
        "status": response.status,
        "ttft_ms": own_ttft if response.server_ttft_ms is None else response.server_ttft_ms,
        "ttfp_ms": own_ttfp if response.server_ttfp_ms is None else response.server_ttfp_ms,
        "source": "client" if response.server_ttft_ms is None else "server",
        "rtf": _rtf(response.created_s, response.last_audio_s, response.audio_s),
        "audio_duration_s": response.audio_s,
    }


def _stream_row(responses: Sequence[ResponseTimes]) -> dict[str, object]:
    """From the start of the input stream."""
    texts = [response.first_text_s for response in responses if response.first_text_s is not None]
    audios = [response.first_audio_s for response in responses if response.first_audio_s is not None]
    last = max((response.last_audio_s for response in responses if response.last_audio_s is not None), default=None)
    return {
        "num_responses": len(responses),
        "stream_ttft_ms": 1000 * min(texts) if texts else None,
        "stream_ttfp_ms": 1000 * min(audios) if audios else None,
        "stream_rtf": _rtf(0.0, last, sum(response.audio_s for response in responses)),
    }


def _rtf(start_s: float, end_s: float | None, audio_s: float) -> float | None:
    return None if end_s is None or not audio_s else (end_s - start_s) / audio_s


def _nearest_rank(ordered: Sequence[float], percent: float) -> float:
    return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)]


def _identity(row: Row) -> tuple[object, object]:
    return row.get("split"), row.get("sample_id")
