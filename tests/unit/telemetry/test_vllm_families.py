import pytest

from antiphon.telemetry.families import Families
from antiphon.telemetry.vllm_families import cache_usage, running_sequences, waiting_sequences

# What dashboards made for vLLM look for, as far as it means the same here.
NAMES = (
    *("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "prefix_cache_queries_total"),
    *("prefix_cache_hits_total", "num_preemptions_total", "prompt_tokens_total", "generation_tokens_total"),
    *("request_success_total", "time_to_first_token_seconds", "e2e_request_latency_seconds"),
    *("request_queue_time_seconds", "inter_token_latency_seconds", "time_per_output_token_seconds"),
)
THINKER = {
    "num_running": 3.0,
    "num_waiting": 2.0,
    "num_preempted": 1.0,
    "to_encode": 1.0,
    "blocks_used": 30.0,
    "blocks_free": 70.0,
    "prefix_hit_tokens": 40.0,
    "prefix_asked_tokens": 100.0,
    "preemptions": 5.0,
}
TALKER = {"speaking": 2.0, "waiting": 1.0, "slots_lent": 3.0, "slots_free": 4.0, "slots_retired": 1.0}


def test_every_family_of_vllms_dashboards_is_there() -> None:
    text = Families("m").render().decode()
    for name in NAMES:
        assert f"# HELP vllm:{name} " in text


def test_a_stage_says_how_many_run_wait_and_how_full_it_is() -> None:
    assert (running_sequences(THINKER), waiting_sequences(THINKER), cache_usage(THINKER)) == (3.0, 4.0, 0.3)
    assert (running_sequences(TALKER), waiting_sequences(TALKER), cache_usage(TALKER)) == (2.0, 1.0, 0.375)
    assert (running_sequences({}), waiting_sequences({}), cache_usage({})) == (0.0, 0.0, 0.0)


def test_replicas_have_labels_and_waiting_is_summed_for_each_stage() -> None:
    families = Families("m")
    families.refresh([(0, 0, THINKER), (1, 0, TALKER), (1, 1, TALKER)])
    text = families.render().decode()
    assert 'vllm:num_requests_running{model_name="m",replica="1",stage="1"} 2.0' in text
    assert 'vllm:kv_cache_usage_perc{model_name="m",replica="0",stage="0"} 0.3' in text
    assert 'vllm_omni:stage_waiting_requests{model_name="m",stage="1"} 2.0' in text


def test_a_count_goes_on_rising_when_its_worker_starts_again_from_nothing() -> None:
    families = Families("m")
    for count in (40.0, 60.0, 60.0, 15.0):
        families.refresh([(0, 0, {"prefix_hit_tokens": count})])
    assert 'vllm:prefix_cache_hits_total{model_name="m",replica="0",stage="0"} 75.0' in families.render().decode()


def test_tokens_that_came_together_share_their_gap() -> None:
    families = Families("m")
    families.vllm.token_gaps.add(0, [(0.02, 4), (0.6, 1)])
    families.vllm.token_gaps.add(0, [(100.0, 1)])
    text = families.render().decode()
    for name in ("inter_token_latency_seconds", "time_per_output_token_seconds"):
        labels = 'model_name="m",replica="0",stage="0"'
        assert f'vllm:{name}_bucket{{le="0.025",{labels}}} 4.0' in text
        assert f'vllm:{name}_bucket{{le="0.75",{labels}}} 5.0' in text
        assert f'vllm:{name}_bucket{{le="+Inf",{labels}}} 6.0' in text
        assert f"vllm:{name}_count{{{labels}}} 6.0" in text
        total = next(line for line in text.splitlines() if line.startswith(f"vllm:{name}_sum"))
        assert float(total.split()[1]) == pytest.approx(100.68)
