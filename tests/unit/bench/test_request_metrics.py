"""Exact numbers of the metrics of one request."""

import pytest

from antiphon.bench.request_metrics import measure
from antiphon.bench.timeline import Answer, AudioArrival, RequestRecord, TextArrival, Usage


def record(*texts: tuple[float, int], e2e_s: float = 1.0, **fields: object) -> RequestRecord:
    """A record of (time, tokens) text events."""
    arrivals = tuple(TextArrival(at_s=at_s, num_tokens=tokens, text="x") for at_s, tokens in texts)
    answer = Answer(e2e_s=e2e_s, texts=arrivals, **fields)  # type: ignore[arg-type]
    return RequestRecord(started_s=100.0, due_s=100.0, prompt_len_tokens=12, answer=answer)


def sound(*pairs: tuple[float, float]) -> tuple[AudioArrival, ...]:
    return tuple(
        AudioArrival(at_s=at_s, num_frames=round(24_000 * sound_s), sample_rate_hz=24_000) for at_s, sound_s in pairs
    )


def test_ttft_is_the_first_event_that_adds_a_token() -> None:
    assert measure(record((0.1, 0), (0.25, 1))).ttft_s == 0.25


def test_tokens_of_one_event_share_the_gap_before_it() -> None:
    found = measure(record((0.2, 2), (0.5, 3), (0.6, 1)))
    assert found.itl_s == pytest.approx((0.0, 0.1, 0.1, 0.1, 0.1))
    assert found.tpot_s == pytest.approx(0.08)
    assert found.output_tokens == 6


def test_the_servers_counts_go_before_ours() -> None:
    found = measure(record((0.2, 1), (0.3, 1), usage=Usage(prompt_tokens=40, completion_tokens=9)))
    assert (found.prompt_tokens, found.output_tokens) == (40, 9)
    assert measure(record((0.2, 1))).prompt_tokens == 12


def test_one_token_has_no_time_per_token() -> None:
    found = measure(record((0.2, 1)))
    assert (found.itl_s, found.tpot_s) == ((), None)


def test_text_in_one_event_takes_the_times_of_the_stage_that_made_it() -> None:
    stages = {"0": {"vllm_tpot_ms": 5.0, "vllm_itl_ms_list": [4.0, 6.0]}}
    found = measure(record((0.9, 3), stage_metrics=stages))
    assert found.itl_s == (0.004, 0.006)
    assert found.tpot_s == 0.005


def test_text_in_one_event_without_stage_metrics_has_zeros_and_no_tpot() -> None:
    found = measure(record((0.9, 3)))
    assert (found.itl_s, found.tpot_s) == ((0.0, 0.0), None)


def test_a_mean_of_the_stage_stands_for_its_missing_list() -> None:
    found = measure(record((0.9, 3), stage_metrics={"0": {"vllm_itl_ms": 4.0}}))
    assert found.itl_s == (0.004, 0.004)
    assert found.tpot_s == pytest.approx(0.004)


def test_events_without_token_counts_spread_the_time_over_the_usage() -> None:
    found = measure(record((0.2, 1), (0.8, 0), usage=Usage(prompt_tokens=1, completion_tokens=4)))
    assert found.tpot_s == pytest.approx(0.2)


def test_speech_has_first_packet_factor_length_and_underrun() -> None:
    found = measure(record(e2e_s=3.0, audios=sound((0.5, 0.0), (0.6, 1.0), (1.0, 1.0), (2.9, 0.5), (2.95, 0.0))))
    assert found.audio_ttfp_s == 0.5
    assert found.audio_duration_s == 2.5
    assert found.audio_rtf == pytest.approx(2.9 / 2.5)
    assert found.audio_underrun_s == pytest.approx(0.3)
    assert found.num_audio_frames == 60_000
    assert found.e2el_s == 3.0
    assert found.ttft_s is None


def test_without_speech_there_is_no_factor() -> None:
    found = measure(record((0.1, 1)))
    assert (found.audio_ttfp_s, found.audio_rtf, found.audio_duration_s) == (None, None, 0.0)
