from base64 import b64encode

import pytest

from antiphon.client import (
    EventCollector,
    chunk_period_ms,
    distribution_summary,
    metric_mean,
    summarize_session_request_metrics,
    summarize_stage_metrics,
)

STAGES = {
    "0": {"vllm_tpot_ms": 7.0, "num_tokens_out": 2, "vllm_itls_ms": [1.0, 2.0]},
    "1": {"stage_gen_time_ms": 50.0},
}


def spoken():
    """Created at 1.0, a second of sound at 1.3 and 1.9, text at 1.31, done at 2.0."""
    collector = EventCollector(lambda: 0.0)

    def add(kind, at_s, **fields):
        collector.add({"type": kind, "response_id": "r", **fields}, received_at_s=at_s)

    def metadata(total_ms, **more):
        return {"audio_duration_ms": total_ms, "vllm_omni": more}

    sound = b64encode(bytes(48_000)).decode()
    add("response.created", 1.0, response={"id": "r"})
    add("response.output_audio.delta", 1.3, delta=sound, metadata=metadata(1000, stage_metrics=STAGES))
    add("response.output_audio_transcript.delta", 1.31, delta="hey")
    add("response.output_audio.delta", 1.9, delta=sound, metadata=metadata(2000))
    add("response.done", 2.0, response={"id": "r", "status": "completed"})
    return collector


def test_times_begin_at_the_commit_if_it_is_given():
    timing = spoken().timing_summary(after_s=0.5, input_committed_at_s=0.9, response_id="r")
    metrics, audio = timing["request_metrics"], timing["audio_output"]
    assert (metrics["ttft_ms"], metrics["ttfp_ms"], metrics["tpot_ms"]) == (410.0, 400.0, 7.0)
    assert (metrics["audio_generation_ms"], metrics["audio_duration_ms"]) == (1000.0, 2000.0)
    assert metrics["measurement_origin"]["ttfp"] == "input_audio_buffer.commit client send to first audio packet"
    assert (audio["chunk_count"], audio["max_chunk_gap_ms"]) == (2, 600.0)
    assert (audio["response_created_to_first_audio_ms"], audio["commit_to_first_audio_ms"]) == (300.0, 400.0)
    assert audio["chunk_duration_ms"] == {"count": 2, "mean": 1000.0, "p50": 1000.0, "p95": 1000.0, "max": 1000.0}


def test_times_begin_at_the_creation_otherwise():
    metrics = spoken().timing_summary(after_s=0.5, measurement_origin={"ttft": "mine"})["request_metrics"]
    assert (metrics["ttft_ms"], metrics["ttfp_ms"]) == (310.0, 300.0)
    assert metrics["measurement_origin"]["ttft"] == "mine"


def test_stages_are_told_by_the_server():
    timing = spoken().timing_summary(after_s=0)
    assert timing["stages"]["0"]["output_token_count"] == 2
    assert timing["stage0_tokens"]["inter_token_interval_ms"]["mean"] == 1.5
    assert summarize_stage_metrics([timing])["1"]["stage_gen_time_ms"]["mean"] == 50.0
    assert summarize_stage_metrics([{}]) is None


def test_the_servers_own_times_go_before_the_clients_if_it_says_where_they_begin():
    collector = spoken()
    told = {"ttft_ms": 11.0, "ttfp_ms": 12.0, "measurement_origin": {"ttft": "server", "ttfp": "server"}}
    for origin, expected in ((told["measurement_origin"], 11.0), ("a string", 310.0)):
        metrics = {"vllm_omni": {"response_request_metrics": {**told, "measurement_origin": origin}}}
        event = {"type": "response.done", "response": {"id": "r", "metadata": metrics}}
        collector.add(event, received_at_s=3.0)
        assert collector.timing_summary(after_s=0)["request_metrics"]["ttft_ms"] == expected
        collector = spoken()


def test_several_responses_are_timed_from_one_moment():
    timing = spoken().global_timing_summary(
        after_s=0.5, window_started_at_s=0.6, response_ids=["r"], measurement_origin={"ttft": "z"}
    )
    assert (timing["ttft_ms"], timing["ttfp_ms"], timing["audio_generation_ms"]) == (710.0, 700.0, 1300.0)
    assert (timing["audio_duration_ms"], timing["response_ids"]) == (2000.0, ["r"])


def test_events_are_kept_with_their_time_and_sorted_by_response():
    collector = spoken()
    collector.add({"type": "error", "error": {"code": "c"}}, received_at_s=2.5)
    assert collector.events[0]["_client_received_at_s"] == 1.0
    assert collector.response_ids == ["r"]
    assert (len(collector.audio_bytes()), len(collector.audio_bytes("r")), collector.audio_bytes("other")) == (
        96_000,
        96_000,
        b"",
    )
    assert collector.response_text("r") == "hey"
    assert collector.response_is_done("r")
    assert not collector.response_is_done("other")
    assert (collector.count("error"), len(collector.errors())) == (1, 1)
    assert collector.first_received_at("response.done", "error") == 2.0
    assert collector.first_received_at("response.created", after_s=1.5) is None
    assert collector.last_received_at("response.output_audio.delta") == 1.9
    assert collector.last_received_at("nothing") is None


def test_distributions_are_by_nearest_rank():
    assert distribution_summary([1.0, 2.0, 4.0]) == {"count": 3, "mean": 2.333, "p50": 2.0, "p99": 4.0}
    assert distribution_summary([]) is None
    assert [metric_mean(value) for value in ({"mean": 3}, 4.5, None, True)] == [3.0, 4.5, None, None]


def test_a_session_is_summed_up_from_its_spoken_responses():
    metrics = [
        {"ttft_ms": 1.0, "ttfp_ms": 2.0, "audio_generation_ms": 500.0, "audio_duration_ms": 1000.0},
        {"ttft_ms": 1.0, "ttfp_ms": None},
    ]
    summary = summarize_session_request_metrics(metrics, session_id="s")
    assert (summary["audio_turn_count"], summary["rtf"]["mean"], summary["ttfp_ms"]["count"]) == (1, 0.5, 1)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([], 1000),
        ([{"session": {"capabilities": {"chunk_period_ms": 500}}}, {"type": "x"}], 500),
        ([{"session": {"capabilities": None}}], 1000),
    ],
)
def test_the_period_is_that_of_the_newest_session(events, expected):
    assert chunk_period_ms(events) == expected
