from base64 import b64encode

import pytest

from antiphon.client import AudioDelta, DuplexEvent, DuplexProtocolError, ErrorEvent, TextDelta, TranscriptDelta
from antiphon.client.events import wrap_event


def test_an_audio_delta_has_samples_and_no_words():
    delta = b64encode(b"\1\2").decode()
    event = wrap_event({"type": "response.output_audio.delta", "response_id": "r", "delta": delta})
    assert isinstance(event, AudioDelta)
    assert (event.pcm, event.audio, event.text, event.response_id) == (b"\1\2", delta, None, "r")


def test_an_audio_delta_that_is_no_base64_is_the_servers_mistake():
    with pytest.raises(DuplexProtocolError):
        _ = wrap_event({"type": "response.output_audio.delta", "delta": "%"}).pcm


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("response.output_audio_transcript.delta", TranscriptDelta),
        ("response.output_text.delta", TextDelta),
        ("response.text.delta", TextDelta),
        ("something.new", DuplexEvent),
    ],
)
def test_events_have_the_type_of_their_kind_and_unknown_ones_a_general_one(kind, expected):
    event = wrap_event({"type": kind, "delta": "words"})
    assert type(event) is expected
    assert event.text == "words"


def test_ids_are_found_where_servers_put_them():
    assert wrap_event({"type": "x", "response": {"id": "r"}}).response_id == "r"
    assert wrap_event({"type": "x", "item": {"id": "i"}}).item_id == "i"
    assert wrap_event({"type": "x", "session": {"id": "s"}}).session_id == "s"
    nothing = wrap_event({"type": "x", "server_event_seq": True})
    assert (nothing.response_id, nothing.server_event_seq, nothing.sample_rate_hz) == (None, None, None)


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "error", "error": {"code": "bad_event", "message": "why", "event_id": "e"}},
        {"type": "error", "error": "why", "code": "bad_event"},
    ],
)
def test_both_shapes_of_an_error_are_read(raw):
    event = wrap_event(raw)
    assert isinstance(event, ErrorEvent)
    error = event.to_exception()
    assert (error.code, str(error)) == ("bad_event", "why")
    assert error.event_id == ("e" if isinstance(raw["error"], dict) else None)


def test_an_event_is_frozen():
    with pytest.raises(AttributeError):
        wrap_event({"type": "x"}).raw = {}
