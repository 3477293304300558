"""Two results side by side: refusal of different work, ratios with intervals, and what differed."""

import json
from typing import Any

import numpy as np
import pytest

from antiphon.bench.compare.comparison import Comparison, compare, comparison_document, render_comparison
from antiphon.bench.compare.figures import Change
from antiphon.bench.compare.result_reading import Result
from antiphon.core.errors import ConfigError


def make_document(ttft_s: float = 0.1, *, noise: int = 0, is_detailed: bool = True, **changes: Any) -> dict[str, Any]:
    """A level of 40 requests whose TTFT lies around *ttft_s*."""
    draw = np.random.default_rng(noise)
    shared = np.random.default_rng(99).normal(0, 0.3 * 0.1, 40)  # what the prompts decide
    ttfts = (ttft_s + shared * ttft_s / 0.1 + draw.normal(0, 0.01 * ttft_s, 40)).tolist()
    document: dict[str, Any] = {
        "backend": "openai-chat-omni",
        "dataset": "random",
        "model_id": "m",
        "seed": 0,
        "request_rate": "inf",
        "burstiness": 1.0,
        "num_prompts": 40,
        "max_concurrency": 4,
        "command": ["antiphon", "bench", "serve", "--random-input-len", "96", "--port", "8099"],
        "duration": 10.0,
        "completed": 40,
        "failed": 0,
        "total_input_tokens": 4000,
        "total_output_tokens": 1280,
        "request_throughput": 4.0,
        "mean_ttft_ms": 1000 * float(np.mean(ttfts)),
        "median_ttft_ms": 1000 * float(np.median(ttfts)),
        "p99_ttft_ms": 1000 * float(np.percentile(ttfts, 99)),
        "server": {"version": {"version": "1", "optimizations": {"cfm_graph": True}}, "counters": {"a_total": 3.0}},
    }
    if is_detailed:
        document |= {"ttfts": ttfts, "e2els": [1.0] * 40, "errors": [""] * 40}
    return document | changes


def result(document: dict[str, Any], name: str = "x") -> Result:
    return Result(name, document, (document,))


def compared(first: dict[str, Any], second: dict[str, Any], **options: Any) -> Comparison:
    return compare(result(first, "a.json"), result(second, "b.json"), **options)


def figure(comparison: Comparison, key: str) -> Any:
    return next(found for found in comparison.levels[0].figures if found.key == key)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"seed": 1}, "seed: 0 and 1"),
        ({"dataset": "seed-tts"}, "dataset: random and seed-tts"),
        ({"max_concurrency": 8}, r"levels \(num_prompts, max_concurrency\): 40 at 4 and 40 at 8"),
        ({"sampling": {}}, None),
        ({"command": ["antiphon", "bench", "serve", "--random-input-len=32"]}, "--random-input-len: 96 and 32"),
        ({"command": ["antiphon", "--random-input-len", "96", "--no-oversample"]}, "--no-oversample: None and on"),
        ({"command": ["antiphon", "--random-input-len", "96", "--port", "1", "--label", "b"]}, None),
        ({"total_input_tokens": 8000}, "input tokens per request: 100.0 and 200.0"),
    ],
)
def test_different_work_is_refused_with_the_fields_that_differ(changes, field) -> None:
    if field is None:
        assert compared(make_document(), make_document(**changes)).levels
        return
    with pytest.raises(ConfigError, match=f"measured different work: {field}"):
        compared(make_document(), make_document(**changes))


def test_a_field_can_be_let_through_by_name_only_if_it_differs() -> None:
    assert compared(make_document(), make_document(seed=5), ignored=["seed"]).levels
    with pytest.raises(ConfigError, match="--ignore 'dataset': this does not differ; different: seed"):
        compared(make_document(), make_document(seed=5), ignored=["dataset"])


def test_a_true_change_is_told_from_noise_between_the_same_requests() -> None:
    slower = figure(compared(make_document(), make_document(0.105, noise=1)), "mean_ttft_ms")
    assert slower.change is Change.WORSE
    assert slower.ratio == pytest.approx(1.05, abs=0.01)
    assert slower.interval.low > 1.03
    again = figure(compared(make_document(), make_document(0.1, noise=1)), "median_ttft_ms")
    assert again.change is Change.NONE
    assert 1.0 in again.interval


def test_requests_that_failed_in_one_run_are_left_out_of_the_interval() -> None:
    second = make_document()
    second["errors"], second["ttfts"] = ["timeout", *[""] * 39], [99.0, *second["ttfts"][1:]]
    found = figure(compared(make_document(), second | {"failed": 1}), "mean_ttft_ms")
    assert found.interval.high == pytest.approx(1.0)


def test_without_details_nothing_is_called_a_change() -> None:
    comparison = compared(make_document(is_detailed=False), make_document(0.2, is_detailed=False))
    found = figure(comparison, "mean_ttft_ms")
    assert (found.ratio, found.interval, found.change) == (pytest.approx(2, abs=0.05), None, Change.UNKNOWN)
    assert "--save-detailed" in comparison.levels[0].warnings[-1]


def test_switches_versions_and_counters_that_differed_are_listed() -> None:
    server = {"version": {"version": "2", "optimizations": {"cfm_graph": False}}, "counters": {}}
    found = compared(make_document(), make_document(server=server, model_id="n", client_version="9")).differences
    assert found == {
        "model_id": ("m", "n"),
        "client_version": (None, "9"),
        "server.version.version": ("1", "2"),
        "server.version.optimizations.cfm_graph": (True, False),
        "counter a_total": ("used", None),
    }


def test_another_amount_of_text_is_a_warning() -> None:
    warnings = compared(make_document(), make_document(total_output_tokens=1000, failed=2)).levels[0].warnings
    assert any("B made -21.9% text" in warning for warning in warnings)
    assert any("B: 2 requests failed" in warning for warning in warnings)


def test_regressions_are_those_beyond_the_limit_and_beyond_chance() -> None:
    comparison = compared(make_document(), make_document(0.12, request_throughput=3.0))
    assert comparison.regressions(0.1) == [
        "40 requests, concurrency 4: Request throughput (req/s), Mean TTFT (ms), Median TTFT (ms)"
    ]
    assert comparison.regressions(0.5) == []


def test_the_table_and_the_document_tell_the_same() -> None:
    comparison = compared(make_document(), make_document(0.2))
    text, document = render_comparison(comparison), json.loads(json.dumps(comparison_document(comparison)))
    assert "Mean TTFT (ms)" in text
    assert "worse" in text
    assert document["levels"][0]["figures"]["mean_ttft_ms"]["change"] == "worse"
    assert document["first"] == "a.json"


def test_files_of_several_levels_are_compared_level_by_level() -> None:
    levels = tuple(make_document(max_concurrency=limit) for limit in (1, 4))
    facts = {"backend": "openai-chat-omni"}
    comparison = compare(Result("a", facts, levels), Result("b", facts, levels))
    assert [level.name for level in comparison.levels] == ["40 requests, concurrency 1", "40 requests, concurrency 4"]


def test_a_result_of_vllm_omni_with_fewer_fields_can_be_compared() -> None:
    theirs = {
        "backend": "openai-chat-omni", "num_prompts": 40, "max_concurrency": 4, "request_rate": "inf",
        "burstiness": 1.0, "duration": 20.0, "completed": 40, "failed": 0, "total_input_tokens": 4020,
        "total_output_tokens": 1280, "request_throughput": 2.0, "mean_ttft_ms": 300.0,
    }  # fmt: skip
    assert figure(compared(theirs, make_document()), "request_throughput").ratio == 2.0
