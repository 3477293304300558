"""Rows of responses and streams, and how runs are merged."""

import pytest

from antiphon.bench.duplex_eval.session import SessionRecord
from antiphon.bench.duplex_eval.session_metrics import distribution, merge_metrics, session_rows
from antiphon.bench.duplex_eval.transcript import ResponseTimes, Transcript


def record(*responses: ResponseTimes) -> SessionRecord:
    return SessionRecord(
        transcript=Transcript(responses={response.response_id: response for response in responses}),
        session_id="s",
        unit_ms=1000,
        is_response_done=True,
        has_drain_timeout=False,
        has_close_timeout=False,
        worst_lateness_s=0.0,
    )


SPOKEN = ResponseTimes("r", 2.0, first_text_s=2.1, first_audio_s=2.3, last_audio_s=4.0, audio_s=4.0, status="completed")


def test_a_response_is_timed_from_its_creation_and_a_stream_from_its_start() -> None:
    (request,), session = session_rows(record(SPOKEN, ResponseTimes("silent", 9.0)), "RTD_OCR", "a")
    assert request["ttft_ms"] == pytest.approx(100)
    assert request["ttfp_ms"] == pytest.approx(300)
    assert request["rtf"] == pytest.approx(0.5)
    assert session["stream_ttft_ms"] == pytest.approx(2100)
    assert session["stream_rtf"] == pytest.approx(1.0)
    assert session["num_responses"] == 1


def test_the_servers_stamp_wins() -> None:
    stamped = ResponseTimes("r", 2.0, first_text_s=2.1, server_ttft_ms=60.0)
    (request,), _ = session_rows(record(stamped), "RTD_OCR", "a")
    assert (request["ttft_ms"], request["ttfp_ms"], request["source"]) == (60.0, None, "server")


def test_a_silent_session_has_no_figures_rather_than_zeros() -> None:
    requests, session = session_rows(record(), "RTD_OCR", "a")
    assert requests == []
    assert session["stream_ttft_ms"] is None
    assert merge_metrics({}, requests, [session])["duplex_stream_ttft_ms"] is None


def test_a_sample_that_is_run_again_replaces_its_rows() -> None:
    first = merge_metrics({}, *_rows("a", 1.0))
    both = merge_metrics(first, *_rows("b", 3.0))
    again = merge_metrics(both, *_rows("a", 5.0))
    assert [row["sample_id"] for row in again["duplex_request_metrics"]] == ["b", "a"]  # type: ignore[attr-defined]
    assert again["duplex_stream_ttft_ms"] == {"count": 2, "mean": 4000.0, "p50": 3000.0, "p99": 5000.0}


def _rows(sample_id: str, at_s: float):
    requests, session = session_rows(record(ResponseTimes("r", 0.0, first_text_s=at_s)), "RTD_OCR", sample_id)
    return requests, [session]


def test_percentiles_are_nearest_ranks() -> None:
    assert distribution(range(1, 101)) == {"count": 100, "mean": 50.5, "p50": 50.0, "p99": 99.0}
    assert distribution([None, "x"]) is None
