"""Figures of a level, and how they are printed and saved."""

import json
from dataclasses import replace

import pytest

from antiphon.bench.metric_names import METRICS
from antiphon.bench.result_file import LevelResult, render_result, write_result
from antiphon.bench.settings import Level, RunSettings
from antiphon.bench.summary import LevelSummary, summarise
from antiphon.bench.sweep_table import render_sweep
from antiphon.bench.table import render_table
from antiphon.bench.timeline import Answer, AudioArrival, RequestRecord, TextArrival
from antiphon.core.errors import ConfigError

SETTINGS = RunSettings(levels=(Level(max_concurrency=2, num_prompts=3),), percentiles=(99.0,), has_stage_table=True)


def record(started_s: float, texts: list[float], audio: list[tuple[float, float]], **fields: object) -> RequestRecord:
    answer = Answer(
        texts=tuple(TextArrival(at_s=at_s, num_tokens=1, text="x") for at_s in texts),
        audios=tuple(
            AudioArrival(at_s=at_s, num_frames=round(24_000 * sound_s), sample_rate_hz=24_000)
            for at_s, sound_s in audio
        ),
        **fields,  # type: ignore[arg-type]
    )
    return RequestRecord(started_s=started_s, due_s=started_s - 0.5, prompt_len_tokens=10, answer=answer)


RECORDS = [
    record(0.0, [0.1, 0.2, 0.3], [(0.5, 1.0), (1.0, 1.0)], e2e_s=1.1, stage_metrics={"0": {"stage_gen_time_ms": 8.0}}),
    record(1.0, [0.2, 0.4], [(0.6, 1.0), (2.0, 1.0)], e2e_s=2.1, stage_metrics={"0": {"stage_gen_time_ms": 10.0}}),
    record(1.0, [], [], e2e_s=0.1, error="HTTP 500: planted"),
]


def summary(records: list[RequestRecord] = RECORDS, goodput_s: dict[str, float] | None = None) -> LevelSummary:
    return summarise(records, duration_s=4.0, percents=(99.0,), goodput_s=goodput_s or {}, continuity_threshold_s=0.1)


def test_failures_are_counted_and_give_no_samples() -> None:
    found = summary()
    assert (found.completed, found.failed, found.errors) == (2, 1, ("HTTP 500: planted",))
    assert found.distributions["ttft"].count == 2
    assert (found.prompt_tokens, found.output_tokens) == (20, 5)
    assert found.per_s(found.output_tokens) == 1.25
    assert found.worst_lateness_s == 0.5


def test_times_between_tokens_are_pooled_over_requests() -> None:
    found = summary().distributions["itl"]
    assert (found.count, found.mean) == (3, pytest.approx(0.4 / 3))


def test_audio_figures_are_of_the_requests_with_sound() -> None:
    found = summary()
    assert found.audio_duration_s == 4.0
    assert found.distributions["audio_rtf"].mean == pytest.approx((1.0 / 2 + 2.0 / 2) / 2)
    assert found.distributions["audio_underrun"].percentiles[0][1] == pytest.approx(0.4 * 0.99)
    assert found.continuity_ok_rate == 0.5


def test_a_request_without_sound_among_others_counts_as_zero_and_is_told() -> None:
    found = summary([RECORDS[0], record(0.0, [0.1], [], e2e_s=0.1)])
    assert found.distributions["audio_ttfp"].mean == 0.25
    assert found.num_without_audio == 1
    assert "Requests without audio (count as 0):     1" in render_table(found, SETTINGS.levels[0], SETTINGS)


def test_a_run_without_sound_has_no_audio_figures() -> None:
    found = summary([record(0.0, [0.1], [], e2e_s=0.1)])
    assert not any(name.startswith("audio") for name in found.distributions)
    assert "Audio Result" not in render_table(found, SETTINGS.levels[0], SETTINGS)


@pytest.mark.parametrize(
    ("limits_s", "good"),
    [
        ({"ttft": 0.15}, 1),
        ({"ttft": 0.25}, 2),
        ({"ttft": 0.25, "e2el": 1.5}, 1),
        ({"tpot": 0.15}, 1),
        ({"audio_ttfp": 0.55}, 1),
    ],
)
def test_good_requests_keep_every_limit(limits_s: dict[str, float], good: int) -> None:
    assert summary(goodput_s=limits_s).num_good == good


def test_a_request_without_sound_does_not_meet_a_limit_on_sound() -> None:
    assert summary([record(0.0, [0.1], [], e2e_s=0.1)], {"audio_ttfp": 9.0}).num_good == 0


def test_the_table_has_the_labels_that_scripts_look_for() -> None:
    lines = render_table(summary(goodput_s={"ttft": 1.0}), SETTINGS.levels[0], SETTINGS).splitlines()
    assert lines[0] == "============ Serving Benchmark Result ============"
    assert all(len(line) == 50 for line in lines if line[0] in "=-")
    for line in (
        "Successful requests:                     2",
        "Failed requests:                         1",
        "Maximum request concurrency:             2",
        "Benchmark duration (s):                  4.00",
        "Request throughput (req/s):              0.50",
        "Request goodput (req/s):                 0.50",
        "Peak concurrent requests:                3",
        "Total input tokens:                      20",
        "Total generated tokens:                  5",
        "Output token throughput (tok/s):         1.25",
        "Total Token throughput (tok/s):          6.25",
        "Mean TTFT (ms):                          150.00",
        "Median AUDIO_RTF:                        0.75",
        "Mean AUDIO_DURATION (s):                 2.00",
        "P99 E2EL (ms):                           2090.00",
        "Total audio duration generated(s):       4.00",
        "Total audio frames generated:            96000",
        "Audio throughput(audio duration/s):      1.00",
        "Streaming continuity OK rate:            50.00%",
        "Mean Stage duration (ms):                9.00",
    ):
        assert line in lines
    assert "-----Time per Output Token (excl. 1st token)------" in lines


def test_how_late_requests_were_sent_is_told_where_they_had_a_time() -> None:
    settings = replace(SETTINGS, request_rate=2.0)
    lines = render_table(summary(), SETTINGS.levels[0], settings).splitlines()
    assert "Worst delay of a send (s):               0.50" in lines
    level = LevelResult(level=SETTINGS.levels[0], summary=summary(), records=RECORDS, server={})
    assert render_result([level], settings, {}, is_detailed=False)["worst_lateness_s"] == 0.5
    assert result()["worst_lateness_s"] is None


def result(detail: bool = False) -> dict[str, object]:
    level = LevelResult(level=SETTINGS.levels[0], summary=summary(), records=RECORDS, server={"counters": {}})
    return render_result([level], SETTINGS, {"label": "x"}, is_detailed=detail)


def test_the_result_has_the_references_keys() -> None:
    found = result()
    assert found["request_rate"] == "inf"
    assert (found["completed"], found["failed"], found["duration"]) == (2, 1, 4.0)
    assert found["mean_ttft_ms"] == pytest.approx(150.0)
    assert found["p99_audio_rtf"] == pytest.approx(0.995)
    assert found["median_audio_duration_s"] == 2.0
    assert (found["num_ttft_samples"], found["num_itl_samples"], found["num_audio_rtf_samples"]) == (2, 3, 2)
    assert found["audio_continuity_ok_rate"] == 0.5
    assert found["stage_durations_mean"] == {"0": 9.0}
    assert set(found["stage_durations_p50"]) == {"0"}  # type: ignore[call-overload]
    assert {f"mean_{metric.key}" for metric in METRICS.values()} <= set(found)


def test_details_have_one_entry_per_request_and_the_factor_can_be_recomputed() -> None:
    found = json.loads(json.dumps(result(detail=True)))
    assert found["start_times"] == [0.0, 1.0, 1.0]
    assert found["errors"] == ["", "", "HTTP 500: planted"]
    assert found["audio_rtfs"][:2] == [0.5, 1.0]
    assert found["generated_texts"] == ["xxx", "xx", ""]


def test_several_levels_are_a_list_under_common_facts() -> None:
    level = LevelResult(level=SETTINGS.levels[0], summary=summary(), records=RECORDS, server={})
    found = render_result([level, level], SETTINGS, {"label": "x"}, is_detailed=False)
    assert found["label"] == "x"
    assert [item["completed"] for item in found["levels"]] == [2, 2]  # type: ignore[attr-defined]


def test_a_sweep_is_a_markdown_table_with_one_row_per_level() -> None:
    level = LevelResult(level=SETTINGS.levels[0], summary=summary(), records=RECORDS, server={})
    header, rule, *rows = render_sweep([level, level]).splitlines()
    assert len(rows) == 2
    assert header.count("|") == rule.count("|") == rows[0].count("|")
    assert rows[0].startswith("| 2 | 2/3 | 150.0 | 199.0 |")


def test_a_file_is_replaced_or_grows_by_a_line(tmp_path) -> None:
    path = tmp_path / "new" / "result.json"
    write_result({"a": 1}, path, has_append=False)
    write_result({"a": 2}, path, has_append=False)
    write_result({"a": 3}, path, has_append=True)
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"a": 2}, {"a": 3}]
    with pytest.raises(ConfigError, match="cannot be written"):
        write_result({}, path / "below.json", has_append=False)
