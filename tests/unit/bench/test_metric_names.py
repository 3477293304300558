"""Choosing metrics."""

import pytest

from antiphon.bench.metric_names import METRICS, parse_goodput, parse_metrics, parse_percentiles
from antiphon.core.errors import ConfigError


def test_metrics_come_in_the_order_of_reports_and_stage_names_are_known() -> None:
    assert [metric.name for metric in parse_metrics("audio_rtf, ttft,ttfc")] == ["ttft", "audio_rtf"]


def test_keys_and_labels_carry_the_unit() -> None:
    assert (METRICS["ttft"].key, METRICS["ttft"].label) == ("ttft_ms", "TTFT (ms)")
    assert (METRICS["audio_rtf"].key, METRICS["audio_rtf"].label) == ("audio_rtf", "AUDIO_RTF")
    assert (METRICS["audio_duration"].key, METRICS["audio_duration"].scale) == ("audio_duration_s", 1.0)


def test_limits_are_given_in_milliseconds() -> None:
    assert parse_goodput(["ttft:200", "audio_ttft:500"]) == {"ttft": 0.2, "audio_ttfp": 0.5}


@pytest.mark.parametrize("text", ["", "x", "-1", "50,101"])
def test_other_percentiles_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--metric-percentiles"):
        parse_percentiles(text)


@pytest.mark.parametrize("text", ["ttft", "itl:5", "ttft:x", "ttft:-1", "ttft:nan"])
def test_other_limits_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--goodput"):
        parse_goodput([text])
