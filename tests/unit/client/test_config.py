import random

import pytest

from antiphon.client import (
    AudioFormat,
    ReconnectPolicy,
    SessionConfig,
    build_realtime_url,
    create_duplex_session_config,
)
from antiphon.core.errors import ConfigError


def test_the_payload_always_says_format_rate_and_detection():
    payload = SessionConfig().to_session_payload(model="m")
    assert payload == {
        "model": "m",
        "modalities": ["audio", "text"],
        "input_audio_format": "pcm16",
        "output_audio_format": "pcm16",
        "sample_rate_hz": 16_000,
        "audio": {"input": {"sample_rate_hz": 16_000}, "output": {"sample_rate_hz": 24_000}},
        "turn_detection": None,
        "extra_body": {"auto_response": True},
    }
    assert "model" not in SessionConfig().to_session_payload(model=None)


def test_the_preset_yields_by_itself_and_keeps_what_is_added():
    config = create_duplex_session_config(
        ref_audio="data:x", temperature=0.5, extra_body={"return_stage_metrics": True}
    )
    payload = config.to_session_payload(model=None)
    assert (payload["overlap_policy"], payload["playback_commit_policy"]) == ("listen_only", "ack_only")
    assert (payload["ref_audio"], payload["temperature"]) == ("data:x", 0.5)
    assert payload["extra_body"] == {"auto_response": True, "force_listen_count": 0, "return_stage_metrics": True}


def test_an_unknown_field_of_the_preset_is_named():
    with pytest.raises(ConfigError, match="temprature"):
        create_duplex_session_config(temprature=1)


def test_a_format_counts_bytes_and_time():
    form = AudioFormat("pcm_f32le", 16_000)
    assert (form.duration_ms(6400), form.byte_count(100)) == (100, 6400)
    with pytest.raises(ConfigError, match="mp3"):
        _ = AudioFormat("mp3", 16_000).bytes_per_sample


def test_waits_grow_and_stay_within_their_bounds():
    policy, generator = ReconnectPolicy(), random.Random(0)
    for attempt, most in enumerate((0.25, 0.5, 1.0, 2.0, 4.0, 4.0)):
        waits = [policy.delay(attempt, generator) for _ in range(200)]
        assert 0.25 <= min(waits) <= max(waits) <= most


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("ws://h:1", "ws://h:1/v1/realtime?duplex=1&model=m&autostart=0"),
        ("https://h/", "wss://h/v1/realtime?duplex=1&model=m&autostart=0"),
        ("h:8", "ws://h:8/v1/realtime?duplex=1&model=m&autostart=0"),
        ("ws://h/abc?model=q&autostart=1&duplex=0", "ws://h/abc?model=q&autostart=0&duplex=0"),
    ],
)
def test_an_address_is_filled_in_and_never_starts_by_itself(url, expected):
    assert build_realtime_url(url, "m", autostart=False) == expected


@pytest.mark.parametrize("url", ["ftp://h", "ws://", ""])
def test_what_is_no_address_is_refused(url):
    with pytest.raises(ConfigError, match="no server's address"):
        build_realtime_url(url, None)
