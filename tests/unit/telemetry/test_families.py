from antiphon.telemetry.families import Families

# Section 3.3 of the serving specification, as far as this model can produce it.
NAMES = (
    *("num_requests_running", "num_requests_waiting", "e2e_request_latency_s", "requests_success_total"),
    *("requests_failed_total", "prompt_tokens_total", "generation_tokens_total", "audio_ttfp_s", "audio_duration_s"),
    *("audio_rtf", "audio_frames_total", "audio_underrun_s", "audio_continuity_ok_total"),
    *("audio_skipped_requests_total", "speech_stream_completed_total", "speech_stream_aborted_total"),
    *("transfer_size_bytes", "transfer_tx_s", "transfer_rx_s", "transfer_in_flight_s", "stage_gen_time_s"),
    *("request_queue_wait_s", "stage_waiting_requests", "stage_in_queue_s", "kv_wait_s"),
    *("realtime_vad_active_sessions", "realtime_vad_inference_latency_s", "realtime_vad_endpoint_delay_s"),
    "realtime_vad_errors_total",
)


def test_every_family_of_the_reference_is_there() -> None:
    text = Families("m").render().decode()
    for name in NAMES:
        assert f"# HELP vllm_omni:{name} " in text


def test_buckets_are_those_of_the_reference() -> None:
    families = Families("m")
    families.of(families.audio_rtf, "2", "0").observe(0.3)
    text = families.render().decode()
    bounds = [line.split('le="')[1].split('"')[0] for line in text.splitlines() if "audio_rtf_bucket" in line]
    assert bounds == ["0.1", "0.25", "0.5", "0.75", "0.9", "1.0", "1.25", "1.5", "2.0", "5.0", "10.0", "+Inf"]


def test_what_the_engine_counts_is_read_when_asked() -> None:
    families = Families("m")
    counts = {"graph": 1.0}
    families.watch(lambda: counts, lambda: {"blocks": 5.0})
    assert 'antiphon:engine_events_total{event="graph",model_name="m"} 1.0' in families.render().decode()
    counts["graph"] = 2.0
    text = families.render().decode()
    assert 'antiphon:engine_events_total{event="graph",model_name="m"} 2.0' in text
    assert 'antiphon:engine_state{model_name="m",name="blocks"} 5.0' in text


def test_two_servers_do_not_share_their_metrics() -> None:
    first, second = Families("a"), Families("b")
    first.of(first.prompt_tokens).inc()
    assert "prompt_tokens_total{" not in second.render().decode()
