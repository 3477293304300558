"""Addresses, and the first event."""

from urllib.parse import parse_qs, urlsplit

import pytest

from antiphon.bench.duplex_eval.session_settings import (
    Pace,
    SessionSettings,
    append_event,
    parse_pace,
    read_reference,
    session_update,
    session_url,
)
from antiphon.core.errors import ConfigError


def test_the_address_asks_for_duplex_and_opens_nothing_by_itself() -> None:
    parts = urlsplit(session_url("ws://h:1", "m"))
    assert parts.path == "/v1/realtime"
    assert parse_qs(parts.query) == {"duplex": ["1"], "model": ["m"], "autostart": ["0"]}
    assert "duplex=2" in session_url("wss://h/x?duplex=2", "")


@pytest.mark.parametrize("url", ["http://h", "h:1", "ws://"])
def test_other_addresses_are_refused(url) -> None:
    with pytest.raises(ConfigError, match="--url"):
        session_url(url, "")


def test_the_session_lets_the_model_decide_and_plays_what_it_acknowledges() -> None:
    session = session_update(SessionSettings(url="ws://h", model="m", reference=b"RIFF"))["session"]
    assert isinstance(session, dict)
    assert session["extra_body"] == {"auto_response": True, "force_listen_count": 0}
    assert session["playback_commit_policy"] == "ack_only"
    assert session["ref_audio"] == "data:audio/wav;base64,UklGRg=="
    assert "ref_audio" not in session_update(SessionSettings(url="ws://h"))["session"]  # type: ignore[operator]


def test_a_frame_rides_as_bare_base64() -> None:
    event = append_event(b"\x01\x00", b"\xff\xd8", 200)
    assert (event["audio"], event["video_frames"], event["audio_end_ms"]) == ("AQA=", ["/9g="], 200)
    assert "video_frames" not in append_event(b"\x01\x00", None, 200)


def test_answers_are_awaited_for_as_long_as_the_video_and_twenty_seconds() -> None:
    assert SessionSettings(url="ws://h").drain_s(45.0) == 65.0
    assert SessionSettings(url="ws://h").drain_s(0.0) == 20.0


def test_paces_are_known_by_name() -> None:
    assert parse_pace("as-fast-as-possible") is Pace.FAST
    with pytest.raises(ConfigError, match="--pace"):
        parse_pace("slow")


def test_a_missing_voice_is_named(tmp_path) -> None:
    assert read_reference(None) is None
    with pytest.raises(ConfigError, match="--ref-audio"):
        read_reference(tmp_path / "none.wav")
