import json

import pytest

from antiphon.wire.realtime import client_events as events
from antiphon.wire.realtime.errors import RealtimeError, error_type
from antiphon.wire.realtime.json_frame import MAX_FRAME_BYTES, parse_object
from antiphon.wire.realtime.parse import EVENT_TYPES, event_of


def parse_event(frame: str) -> events.ClientEvent:
    return event_of(parse_object(frame))


def code_of(frame: str | dict[str, object]) -> tuple[str, str | None]:
    with pytest.raises(RealtimeError) as caught:
        parse_event(frame if isinstance(frame, str) else json.dumps(frame))
    return caught.value.code, caught.value.event_id


def test_there_are_20_client_events():
    assert len(EVENT_TYPES) == 20


@pytest.mark.parametrize(
    ("alias", "kind"),
    [
        ("close", events.SessionClose),
        ("close_session", events.SessionClose),
        ("push_text", events.InputTextAppend),
        ("input_text.append", events.InputTextAppend),
    ],
)
def test_aliases_of_types_are_resolved(alias, kind):
    assert isinstance(parse_event(json.dumps({"type": alias})), kind)


def test_the_first_spelling_of_a_field_wins():
    event = parse_event('{"type":"input_audio_buffer.append","audio":"AA","delta":"BB","speech":true}')
    assert isinstance(event, events.InputAudioAppend)
    assert (event.audio, event.is_speech) == ("AA", True)


def test_input_commit_asks_for_an_answer_unless_told_otherwise():
    asks = parse_event('{"type":"input.commit"}')
    declines = parse_event('{"type":"input.commit","create_response":false}')
    assert isinstance(asks, events.InputAudioCommit)
    assert isinstance(declines, events.InputAudioCommit)
    assert (asks.response_create, declines.response_create) == (True, False)


def test_a_session_update_may_have_its_fields_at_the_top():
    event = parse_event('{"type":"session.update","event_id":"e","voice":"v"}')
    assert event == events.SessionUpdate(event_id="e", session={"voice": "v"})


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("{", "invalid_json"),
        ("[]", "bad_event"),
        ('"text"', "bad_event"),
        ({"type": 3}, "bad_event"),
        ({}, "bad_event"),
        ({"type": "nonsense"}, "unknown_event"),
        ({"type": "turn.signal"}, "bad_event"),
        ({"type": "playback.ack", "played_ms": True}, "bad_event"),
        ({"type": "conversation.item.create", "item": 1}, "bad_event"),
        ("[" * 100_000, "bad_event"),
        ('{"type":"session.close","x":' + "[" * 70 + "]" * 70 + "}", "bad_event"),
        ('{"type":"session.close","x":"' + "A" * MAX_FRAME_BYTES + '"}', "event_too_large"),
    ],
)
def test_a_frame_that_is_no_event_is_refused_by_name(frame, code):
    assert code_of(frame)[0] == code


def test_a_refusal_names_the_event():
    assert code_of({"type": "nonsense", "event_id": "e1"}) == ("unknown_event", "e1")


def test_unknown_codes_are_the_clients_fault():
    assert error_type("whatever") == "invalid_request_error"
    assert error_type("engine_dead") == "server_error"
    assert error_type("resource_exhausted") == "rate_limit_error"
