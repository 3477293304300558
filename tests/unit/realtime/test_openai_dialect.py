"""Sessions of OpenAI's dialect, with the clock moved by hand (specification section 17)."""

from base64 import b64encode
from typing import Any

import pytest
from realtime_driving import Drive, Event, error_code, loud

from antiphon.realtime.dialects.openai import OpenAiDialect
from antiphon.realtime.engine import Cancel, Reconfigure
from antiphon.realtime.script import DEFAULT_SCRIPT, Answer, Piece, Script

RATE_HZ = 24_000
SECOND_MS = 1050  # a resampler always holds a little back
TAIL_MS = 1600
SERVER_VAD: Event = {"type": "server_vad"}
NEVER = Script(answers=(Answer(pieces=(Piece("x"),)),), loud_rms=2.0)  # nothing is loud enough to be heard
ITEM = ["conversation.item.added", "input_audio_buffer.committed", "conversation.item.done"]


def talk(detection: Any = "unset", *, script: Script = DEFAULT_SCRIPT, **options: Any) -> Drive:
    """A session; *detection* is what turn_detection is set to."""
    drive = Drive(dialect=OpenAiDialect(**options), script=script)
    if detection != "unset":
        update(drive, audio={"input": {"turn_detection": detection}})
    return drive


def update(drive: Drive, **session: Any) -> list[Event]:
    return drive.send("session.update", session={"type": "realtime", **session})


def say(drive: Drive, duration_ms: int = 1500) -> list[Event]:
    return drive.append(loud(duration_ms, RATE_HZ))


def hush(drive: Drive, duration_ms: int) -> list[Event]:
    return drive.append(b64encode(bytes(2 * RATE_HZ * duration_ms // 1000)).decode())


def done(events: list[Event]) -> Event:
    (found,) = [event["response"] for event in events if event["type"] == "response.done"]
    return found


# --- opening


def test_a_session_opens_without_credentials_numbers_or_an_update():
    drive = talk()
    assert drive.types() == ["session.created"]
    assert set(drive.events[0]) == {"type", "event_id", "session"}


def test_the_default_input_is_24_khz():
    drive = talk()
    say(drive, SECOND_MS)
    assert len(drive.units) == 1
    assert drive.events[0]["session"]["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": RATE_HZ}


@pytest.mark.parametrize("session", [{"extra_body": {}}, {"modalities": ["text"]}, {"sample_rate_hz": 16000}])
def test_a_guess_is_corrected_by_a_first_update_in_vllms_terms(session: Event):
    drive = talk(is_guess=True)
    (updated,) = drive.send("session.update", session=session)
    assert updated["server_event_seq"] == 1
    assert updated["session"]["sample_rate_hz"] == 16_000
    assert "resume_token" not in drive.events[0]


def test_a_guess_is_not_corrected_twice():
    drive = talk(is_guess=True)
    update(drive)
    assert error_code(drive.send("session.heartbeat")) == "unknown_event"


# --- session.update


def test_an_update_shows_what_was_asked_for_and_keeps_it():
    drive = talk()
    update(drive, tools=[{"type": "function", "name": "f"}], audio={"output": {"voice": "marin"}})
    (updated,) = update(drive, tool_choice="none")
    assert updated["session"]["tools"] == [{"type": "function", "name": "f"}]
    assert updated["session"]["tool_choice"] == "none"
    assert updated["session"]["audio"]["output"]["voice"] == "marin"


def test_a_limit_of_tokens_for_a_response_is_not_taken_for_one_of_a_unit():
    drive = talk()
    (updated,) = update(drive, max_output_tokens=4096)
    assert updated["session"]["max_output_tokens"] == 4096
    assert drive.session.state.settings.max_unit_tokens is None


def test_a_response_stops_at_its_limit_of_tokens_and_what_was_said_stands():
    drive = talk(script=Script(answers=(Answer(pieces=(Piece("on "),), pieces_per_unit=1, ends=False),)))
    update(drive, max_output_tokens=60)  # a unit has a word and 25 codec frames
    say(drive)
    drive.send("response.create")
    response = done(drive.run(10))
    assert (response["status"], response["usage"]["output_tokens"]) == ("incomplete", 78)
    assert response["status_details"] == {"type": "incomplete", "reason": "max_output_tokens"}
    assert [command.heard_text for command in drive.commands if isinstance(command, Cancel)] == ["on on on "]


def test_a_request_may_lift_the_limit_of_tokens():
    drive = talk()
    update(drive, max_output_tokens=30)
    say(drive)
    drive.send("response.create", response={"max_output_tokens": "inf"})
    assert done(drive.run(10))["status"] == "completed"


def test_a_cleared_buffer_does_not_take_committed_speech_with_it():
    drive = talk(None)
    say(drive)
    drive.commit()
    say(drive, 500)
    assert drive.types(drive.send("input_audio_buffer.clear")) == ["input_audio_buffer.cleared"]
    drive.send("response.create")
    assert done(drive.run(5))["output"][0]["content"][0]["transcript"]
    assert len(drive.units) == 2


def test_instructions_reach_the_model_before_its_first_unit():
    drive = talk()
    (updated,) = update(drive, instructions="Be brief.")
    assert updated["session"]["instructions"] == "Be brief."
    (command,) = [command for command in drive.commands if isinstance(command, Reconfigure)]
    assert command.settings.instructions == "Be brief."


def test_later_instructions_are_ignored_not_refused():
    drive = talk()
    update(drive, instructions="Be brief.")
    say(drive, SECOND_MS)
    (updated,) = update(drive, instructions="Be long.")
    assert updated["session"]["instructions"] == "Be brief."


def test_the_idle_timeout_of_a_detector_is_dropped():
    drive = talk({**SERVER_VAD, "idle_timeout_ms": 6000, "threshold": 0.6})
    shown = drive.events[-1]["session"]["audio"]["input"]["turn_detection"]
    assert shown == {"type": "server_vad", "threshold": 0.6}


@pytest.mark.parametrize(
    ("session", "code"),
    [
        ({"type": "transcription"}, "invalid_session_config"),
        ({"voice": "marin"}, "invalid_session_config"),
        ({"audio": {"input": {"language": "de"}}}, "invalid_session_config"),
        ({"output_modalities": ["video"]}, "invalid_session_config"),
        ({"audio": 1}, "invalid_session_config"),
        ({"audio": {"input": []}}, "invalid_session_config"),
        ({"audio": {"both": {}}}, "invalid_session_config"),
        ({"audio": {"output": {"pitch": 2}}}, "invalid_session_config"),
        ({"audio": {"input": {"turn_detection": {"type": "other"}}}}, "unsupported_turn_detection"),
        ({"max_output_tokens": 0}, "invalid_session_config"),
        ({"audio": {"output": {"speed": 1.5}}}, "invalid_session_config"),
        ({"model": "other"}, "model_update_unsupported"),
        ({"audio": {"input": {"format": {"type": "audio/opus"}}}}, "unsupported_audio_format"),
        ({"audio": {"output": {"format": {"type": "audio/wav"}}}}, "unsupported_audio_format"),
        (
            {"audio": {"input": {"turn_detection": {**SERVER_VAD, "interrupt_response": False}}}},
            "unsupported_turn_detection",
        ),
        (
            {"audio": {"input": {"turn_detection": {"type": "semantic_vad", "create_response": False}}}},
            "unsupported_turn_detection",
        ),
        ({"audio": {"input": {"turn_detection": "server_vad"}}}, "unsupported_turn_detection"),
    ],
)
def test_a_refused_update_changes_nothing(session: Event, code: str):
    drive = talk()
    before = drive.session.state.settings
    assert error_code(update(drive, **session)) == code
    assert drive.session.state.settings == before


@pytest.mark.parametrize("frame", ['{"type":"session.update"}', '{"type":7}', "{}"])
def test_a_frame_that_is_no_event_is_answered_and_the_session_lives(frame: str):
    drive = talk(is_guess=True)
    assert error_code(drive.send_frame(frame)) == "bad_event"
    assert drive.types(update(drive)) == ["session.updated"]


# --- items of an open microphone


def test_the_item_is_closed_right_before_the_model_begins_to_answer():
    drive = talk()
    say(drive)
    hush(drive, TAIL_MS)
    kinds = drive.types(drive.run(5))
    begins = kinds.index("response.created")
    assert kinds[begins - 4 : begins] == ["input_audio_buffer.speech_stopped", *ITEM]


def test_a_server_vad_closes_the_item_where_the_user_stops():
    drive = talk(SERVER_VAD)
    say(drive)
    assert [*drive.types(hush(drive, 600))] == ["input_audio_buffer.speech_stopped", *ITEM]
    assert not drive.of_type("response.created")


def test_no_speech_is_told_of_while_an_answer_plays_until_its_item_ends():
    drive = talk()
    say(drive)
    hush(drive, TAIL_MS)
    drive.run(1)
    assert done(drive.events)["status"] == "completed"
    assert drive.types(say(drive)) == []  # 4 s of speech came within half a second
    hush(drive, TAIL_MS)
    kinds = drive.types(drive.run(1))
    assert kinds[:2] == ["input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped"]
    assert "response.created" in kinds


def test_speech_is_told_of_once_the_answer_must_have_been_played():
    drive = talk()
    say(drive)
    hush(drive, TAIL_MS)
    drive.run(6)
    assert drive.types(say(drive, 200)) == ["input_audio_buffer.speech_started"]


def test_a_truncation_says_that_nothing_plays_any_more():
    drive = talk()
    say(drive)
    hush(drive, TAIL_MS)
    drive.run(1)
    item_id = done(drive.events)["output"][0]["id"]
    drive.send("conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=900)
    assert drive.types(say(drive, 200)) == ["input_audio_buffer.speech_started"]


def test_a_server_vad_cuts_the_answer_off():
    drive = talk(SERVER_VAD, script=Script(answers=(Answer(pieces=(Piece("on "),), pieces_per_unit=1, ends=False),)))
    say(drive)
    hush(drive, TAIL_MS)
    drive.run(1)
    cut = done(say(drive, 400))
    assert (cut["status"], cut["status_details"]) == ("cancelled", {"type": "cancelled", "reason": "turn_detected"})
    assert cut["output"][0]["status"] == "incomplete"
    assert any(isinstance(command, Cancel) for command in drive.commands)


def test_a_commit_without_speech_is_refused():
    drive = talk()
    hush(drive, TAIL_MS)
    assert error_code(drive.commit()) == "input_audio_buffer_commit_empty"


def test_a_server_vad_without_create_response_commits_and_waits():
    drive = talk({**SERVER_VAD, "create_response": False})
    say(drive)
    assert drive.types(hush(drive, 800))[-3:] == ITEM
    assert drive.run(2) == []
    drive.send("response.create")
    assert done(drive.run(5))["output"][0]["content"][0]["transcript"]


# --- response.create


def test_push_to_talk_hears_all_of_a_turn_before_it_answers():
    drive = talk(None)
    say(drive, 2500)
    drive.commit()
    assert not drive.units
    drive.send("response.create")
    drive.run(3)
    assert [command.unit.force_listen for command in drive.units] == [True, True, False]


def test_audio_that_is_committed_during_an_answer_outlives_its_cancellation():
    drive = talk(None)
    say(drive)
    drive.send("response.create")
    say(drive, 500)
    drive.commit()
    drive.send("response.cancel")
    drive.send("response.create")
    assert done(drive.run(5))["status"] == "completed"
    assert drive.units[-1].unit.is_final


def test_text_seeds_a_conversation_that_has_not_begun():
    drive = talk()
    part = {"type": "input_text", "text": "Hello."}
    drive.send("conversation.item.create", item={"type": "message", "role": "user", "content": [part]})
    drive.send("response.create", response={"instructions": "Be kind."})
    assert drive.session.state.settings.initial_user_text == "Be kind.\nHello."
    assert drive.units[0].unit.is_silence
    assert done(drive.run(5))["output"][0]["content"][0]["transcript"]


def test_text_that_comes_too_late_is_kept_and_the_request_still_answered():
    drive = talk(script=NEVER)
    hush(drive, SECOND_MS)
    drive.run(1)
    part = {"type": "input_text", "text": "Hello."}
    created = drive.send("conversation.item.create", item={"type": "message", "role": "user", "content": [part]})
    assert drive.types(created) == ["conversation.item.added", "conversation.item.done"]
    drive.send("response.create")
    assert drive.session.state.settings.initial_user_text is None
    assert done(drive.run(15))["status"] == "completed"


def test_a_request_ends_after_eight_quiet_units_of_an_open_microphone():
    drive = talk(script=NEVER)
    drive.send("response.create")
    for _ in range(6):  # the request itself began with one
        hush(drive, SECOND_MS)
        assert not [event for event in drive.run(0.9) if event["type"] == "response.done"]
    hush(drive, SECOND_MS)
    response = done(drive.run(0.9))
    assert (response["status"], response["output"][0]["content"]) == (
        "completed",
        [{"type": "output_audio", "transcript": ""}],
    )


@pytest.mark.parametrize("detection", ["unset", None])
def test_a_long_pause_inside_a_turn_does_not_end_its_response(detection: Any):
    drive = talk(detection)
    say(drive)
    hush(drive, 12_000)
    drive.send("response.create")
    assert done(drive.run(5))["output"][0]["content"][0]["transcript"]


def test_a_response_of_its_own_can_be_text():
    drive = talk(None)
    say(drive)
    drive.send("response.create", response={"output_modalities": ["text"]})
    response = done(drive.run(5))
    assert response["output_modalities"] == ["text"]
    assert response["output"][0]["content"][0]["type"] == "output_text"


@pytest.mark.parametrize(
    ("response", "code"),
    [
        ({"input": [{"type": "message"}]}, "unsupported_native_response_options"),
        ({"audio": {"output": {"format": {"type": "audio/opus"}}}}, "unsupported_audio_format"),
        ({"instructions": 1}, "bad_event"),
        ({"output_modalities": []}, "invalid_session_config"),
        ({"something": 1}, "bad_event"),
    ],
)
def test_a_refused_request_opens_no_response(response: Event, code: str):
    drive = talk()
    say(drive)
    assert error_code(drive.send("response.create", response=response)) == code
    assert not drive.of_type("response.created")


def test_a_failed_response_has_an_error_and_no_reason():
    drive = talk(script=Script(answers=(Answer(pieces=(Piece("x"),), fails="talker_context_exceeded"),)))
    say(drive)
    drive.send("response.create")
    response = done(drive.run(5))
    assert response["status"] == "failed"
    assert set(response["status_details"]) == {"type", "error"}
    assert response["status_details"]["error"]["code"] == "talker_context_exceeded"


def test_a_lost_socket_ends_the_session():
    drive = talk()
    drive.drop()
    drive.run(1)
    assert drive.session.is_over
    assert drive.types() == ["session.created"]
