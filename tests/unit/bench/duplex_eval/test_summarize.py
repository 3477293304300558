"""Sums over score files."""

import json
from pathlib import Path
from typing import Any

import pytest

from antiphon.bench.duplex_eval.splits import PROTOCOL_PIN
from antiphon.bench.duplex_eval.summarize import read_scores, render_summary, summarize
from antiphon.core.errors import ConfigError


def rtd(task: str, content: float, temporal: float, **fields: Any) -> dict[str, Any]:
    scores = {"content": {"score": content}, "temporal": {"avg_score": temporal}}
    return _score("rtd", task) | scores | fields


def pr(task: str, success: int) -> dict[str, Any]:
    return _score("pr", task) | {"pr": {"all_success": success}}


def _score(family: str, task: str) -> dict[str, Any]:
    meta = {"clock": "media"}
    return {
        "family": family,
        "task_type": task,
        "protocol_pin": PROTOCOL_PIN,
        "judge_model": "j",
        "response_meta": meta,
    }


def save(root: Path, *scores: dict[str, Any]) -> Path:
    for index, score in enumerate(scores):
        path = root / "split" / f"{index}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(score), encoding="utf-8")
    return root


def test_means_are_taken_over_families_and_tasks(tmp_path) -> None:
    root = save(
        tmp_path,
        rtd("OCR", 1.0, 2.0),
        rtd("OCR", 2.0, 3.0),
        rtd("Omni", 3.0, 1.0),
        pr("correction", 1),
        pr("correction", 0),
    )
    found: Any = summarize(read_scores(root))
    assert found["samples"] == 5
    assert found["rtd"]["mean_content_score"] == 2.0
    assert found["rtd"]["mean_avg_temporal_score"] == 2.0
    assert found["rtd"]["by_task"]["OCR"]["mean_content_score"] == 1.5
    assert found["pr"]["mean_all_success"] == 0.5
    low, high = found["rtd"]["content_score_interval"]
    assert low < 2.0 < high
    text = render_summary(found)
    assert "rtd" in text
    assert "0.5000" in text


def test_a_family_without_samples_is_left_out(tmp_path) -> None:
    assert "pr" not in summarize(read_scores(save(tmp_path, rtd("OCR", 1.0, 1.0))))


def test_responses_without_a_valid_clock_are_counted_and_named(tmp_path) -> None:
    found = summarize(read_scores(save(tmp_path, rtd("OCR", 1.0, 1.0, response_meta={"clock": "invalid"}))))
    assert found["num_invalid_clock"] == 1
    assert "have no valid clock" in render_summary(found)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([], "holds no scores"),
        ([{"family": "x"}], "not a score file"),
        ([rtd("OCR", 1.0, 1.0, protocol_pin="old")], "another protocol"),
        ([rtd("OCR", 1.0, 1.0), rtd("OCR", 1.0, 1.0, judge_model="k")], "differ in judge_model"),
    ],
)
def test_what_cannot_be_summed_up_is_refused(tmp_path, scores, message) -> None:
    with pytest.raises(ConfigError, match=message):
        read_scores(save(tmp_path, *scores))
