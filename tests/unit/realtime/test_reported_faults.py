"""Faults that other servers were reported for, tried on one session: each case is named in its test.

Elsewhere: C54 and C102 in test_long_sessions.py and test_realtime_soak.py; C108, C109 and C115 in test_gate.py;
C63, C64, C92, C93, C98, C107 and C112 in test_realtime_faults.py; C70 in the tests of the clients' own packages; C96 is
conformance case 70.
"""

from base64 import b64encode
from itertools import product

import numpy as np
import pytest
from realtime_driving import AUTO, Drive, error_code, loud, pcm16, quiet

from antiphon.client.conformance.invariants import check_events
from antiphon.client.conformance.sounds import png
from antiphon.realtime.dialects.openai import OpenAiDialect
from antiphon.realtime.limits import Limits
from antiphon.realtime.script import Answer, Piece, Script, tone
from antiphon.wire.realtime.errors import RealtimeError

COUNTING = Script(answers=(Answer(pieces=tuple(Piece(f"{number} ", 500) for number in range(1, 21))),), gap_ms=100)


def both(**options):
    """A session of vLLM-Omni's dialect and one of OpenAI's."""
    return Drive(AUTO, **options), Drive(dialect=OpenAiDialect(), **options)


def rate_of(drive: Drive) -> int:
    return drive.session.state.settings.input_format.input_rate_hz


def answering(drive: Drive, run_s: float = 0.1) -> str:
    """Ask something; gives the id of the answer that runs."""
    rate_hz = rate_of(drive)
    drive.append(loud(2000, rate_hz))
    for _ in range(3):  # what an earlier turn left in the buffer moves the units
        drive.append(quiet(1000 * rate_hz // 16_000))
        drive.run(run_s)
        if drive.session.state.response is not None:
            break
    response = drive.session.state.response
    assert response is not None
    return response.id


def alive(drive: Drive) -> None:
    """The next turn is answered in full."""
    before = len(drive.of_type("response.done"))
    answering(drive)
    drive.run(6)
    done = drive.of_type("response.done")[before:]
    assert [event["response"]["status"] for event in done] == ["completed"]


# --- A. session life


def test_c03_ten_seconds_of_nothing_are_listened_to_and_the_end_is_clean():
    drive = Drive(AUTO)
    for _ in range(10):
        drive.append(quiet(1000))
        drive.run(1)
    drive.send("session.close")
    drive.run(1)
    assert len(drive.of_type("response.listen")) == 10
    assert not drive.of_type("response.created") + drive.of_type("error")
    assert drive.types()[-1] == "session.closed"


@pytest.mark.parametrize("openai", [False, True])
def test_c04_a_commit_of_nothing_is_one_error_and_the_session_stays(openai):
    drive = both()[openai]
    code = error_code(drive.commit(event_id="mine"))
    assert code == ("input_audio_buffer_commit_empty" if openai else "input_audio_buffer_empty")
    assert drive.events[-1]["error"]["event_id"] == "mine"
    alive(drive)


@pytest.mark.parametrize("openai", [False, True])
def test_c06_a_commit_of_too_little_keeps_the_buffer(openai):
    drive = both()[openai]
    piece = loud(50, rate_of(drive))
    drive.append(piece)
    (error,) = drive.commit()
    assert error["error"]["code"].endswith("_empty")
    assert "100 ms" in error["error"]["message"]
    assert "50 ms" in error["error"]["message"]
    drive.append(piece)
    types = drive.types(drive.commit())
    assert "input_audio_buffer.committed" in types
    assert "error" not in types


@pytest.mark.parametrize("rate_hz", [8000, 11_025, 16_000, 22_050, 24_000, 44_100, 48_000])
def test_c06_two_halves_of_the_minimum_are_enough_at_any_rate(rate_hz):
    drive = Drive(AUTO)
    whole = tone(100, rate_hz)
    for half in np.array_split(whole, 2):
        drive.append(pcm16(half), sample_rate_hz=rate_hz)
    assert "error" not in drive.types(drive.commit())


def test_c07_new_instructions_are_refused_by_name_and_never_ignored():
    drive = Drive(AUTO)
    (error,) = drive.send("session.update", session={"instructions": "Answer only with the word blue."})
    assert (error["error"]["code"], error["error"]["param"]) == ("instructions_update_unsupported", "instructions")
    assert drive.session.state.settings.instructions is None


def test_c09_an_update_of_something_else_reaches_the_engine_without_a_new_context():
    drive = Drive(AUTO)
    answering(drive)
    drive.run(6)
    history = drive.session.state.conversation.history()
    drive.send("session.update", session={"temperature": 0.3})
    assert drive.session.state.conversation.history() == history
    assert [type(command).__name__ for command in drive.commands[-1:]] == ["Reconfigure"]
    alive(drive)


def test_c11_a_turn_of_text_alone_has_one_answer_in_each_dialect_every_time():
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello."}]}
    plain, openai = both()
    for _ in range(3):
        plain.send("conversation.item.create", item=item)
        assert error_code(plain.send("response.create")) == "text_only_turn_unsupported"
    openai.send("conversation.item.create", item=item)
    openai.send("response.create")
    openai.run(10)
    assert len(openai.of_type("response.done")) == 1
    assert not openai.of_type("error")


def test_c13_every_response_has_one_end_in_bounded_time_even_if_the_model_never_ends_its_turn():
    endless = Script(answers=(Answer(pieces=(Piece("on ", 100),), pieces_per_unit=1, ends=False),))
    drive = Drive(AUTO, script=endless)
    answering(drive)
    drive.run(70)
    (done,) = drive.of_type("response.done")
    assert done["response"]["status_details"] == {"type": "completed", "reason": "continuation_limit"}
    assert drive.outbox.closing is None


# --- B. barge-in, cancel, truthful history


@pytest.mark.parametrize("how", ["response.cancel", "barge_in", "input.cancel"])
def test_c17_nothing_of_an_interrupted_answer_comes_in_the_next_turn(how):
    drive = Drive(AUTO, script=COUNTING)
    old = answering(drive, 0.7)
    drive.send(how)
    new = answering(drive, 0.3)
    drive.run(8)
    at = drive.types().index("response.done")
    late = [event for event in drive.events[at + 1 :] if event.get("response_id") == old and "delta" in event["type"]]
    assert (late, new != old) == ([], True)
    check_events(drive.events)


def test_c17_a_new_session_hears_nothing_of_the_one_before():
    first = Drive(AUTO, script=COUNTING)
    answering(first, 0.7)
    stale = [output for _, output in first.due]
    second = Drive(AUTO)
    for output in stale:
        second.deliver(output)
    assert not second.of_type("response.output_audio.delta")


def truncate(drive: Drive, response_id: str, end_ms: float):
    return drive.send("conversation.item.truncate", item_id=f"item_{response_id}", content_index=0, audio_end_ms=end_ms)


def test_c19_a_truncation_slightly_beyond_the_end_leaves_the_session_usable():
    for drive, answer in zip(both(), ("error", "conversation.item.truncated"), strict=True):
        response_id = answering(drive)
        drive.run(6)
        assert drive.types(truncate(drive, response_id, 4085))[0] == answer
        alive(drive)


@pytest.mark.parametrize("openai", [False, True])
def test_c20_a_truncation_to_nothing_empties_the_text_and_a_negative_one_names_its_field(openai):
    drive = both()[openai]
    response_id = answering(drive)
    drive.run(6)
    (error,) = truncate(drive, response_id, -1)
    assert (error["error"]["code"], error["error"]["param"]) == ("bad_event", "audio_end_ms")
    assert "conversation.item.truncated" in drive.types(truncate(drive, response_id, 0))
    item = drive.session.state.conversation.get(f"item_{response_id}")
    assert (item.heard, item.shown["content"][0]["transcript"]) == ("", "")
    alive(drive)


def test_c22_the_history_holds_what_was_played_and_nothing_else():
    drive = Drive(AUTO, script=COUNTING)
    response_id = answering(drive, 1.5)
    drive.send("playback.ack", played_ms=3000, response_id=response_id)
    drive.send("barge_in")
    assert drive.session.state.conversation.history()[-1][1].split() == [str(number) for number in range(1, 7)]
    assert drive.commands[-1].heard_text.split() == [str(number) for number in range(1, 7)]


def test_c23_an_interruption_right_after_the_end_takes_nothing_back():
    drive = Drive(AUTO)
    response_id = answering(drive)
    drive.run(6)
    drive.send("playback.ack", played_ms=4000, response_id=response_id)
    drive.run(0.1)
    drive.send("barge_in")
    assert drive.session.state.conversation.history()[-1][1] == "This is a scripted answer."


@pytest.mark.parametrize("openai", [False, True])
def test_c24_a_cancel_of_nothing_has_the_same_code_every_time_and_changes_nothing(openai):
    drive = both(script=COUNTING)[openai]
    code = "response_cancel_not_active" if openai else "response_not_active"
    for _ in range(2):
        assert error_code(drive.send("response.cancel")) == code
    answering(drive)
    drive.send("response.cancel")
    epoch = drive.session.state.epoch
    assert error_code(drive.send("response.cancel")) == code
    assert drive.session.state.epoch == epoch
    alive_script = drive.of_type("response.done")
    assert [event["response"]["status"] for event in alive_script] == ["cancelled"]


def test_c24_a_request_during_an_answer_is_refused_or_joins_it():
    plain, openai = both(script=COUNTING)
    answering(plain)
    assert error_code(plain.send("response.create")) == "response_already_active"
    answering(openai)
    assert openai.send("response.create") == []
    openai.run(8)
    assert len(openai.of_type("response.done")) == 1


# --- C. sound in


@pytest.mark.parametrize("sizes", list(product((4801, 4799), repeat=2)))
def test_c26_an_odd_number_of_bytes_is_an_error_and_never_silence(sizes):
    """The specification refuses such an append by name; what came before and comes after is not touched."""
    drive = Drive(AUTO)
    drive.append(loud(200))
    before = drive.session.state.buffer.num_samples
    for size in sizes:
        assert error_code(drive.append(b64encode(bytes(size)).decode())) == "bad_audio"
    assert drive.session.state.buffer.num_samples == before
    alive(drive)


def test_c27_appends_of_any_size_are_taken_or_refused():
    drive = Drive(AUTO)
    assert drive.append("") == []
    assert error_code(drive.append("AA==")) == "bad_audio"
    assert drive.append(quiet(20)) == []
    megabytes = quiet(65_000)  # 2 MB
    assert "error" not in drive.types(drive.append(megabytes))
    huge = b64encode(bytes(20 * 10**6)).decode()
    (error,) = [event for event in drive.append(huge) if event["type"] == "error"]
    assert error["error"]["code"] == "event_too_large"
    assert str(15 * 2**20) in error["error"]["message"]
    drive.run(1)
    assert drive.session.life.value == "attached"


def test_c34_the_rates_in_force_are_shown_and_telephone_sound_has_its_right_length():
    drive = Drive({"input_audio_format": "g711_ulaw", **AUTO})
    (created,) = drive.of_type("session.created")
    assert created["session"]["audio"]["input"]["format"] == {"type": "audio/pcmu", "rate": 8000}
    assert created["session"]["audio"]["output"]["format"]["rate"] == 24_000
    drive.append(b64encode(b"\x80\x00" * 8000).decode())
    drive.commit()
    drive.run(0.1)
    assert [command.unit.is_final for command in drive.units] == [False, True]


def test_c32_silence_is_legal_and_not_a_number_is_refused():
    drive = Drive(AUTO)
    drive.append(quiet(3000))
    drive.run(3)
    assert len(drive.of_type("response.listen")) == 3
    nan = b64encode(np.full(160, np.nan, "<f4").tobytes()).decode()
    assert error_code(drive.append(nan, format="pcm_f32le")) == "bad_audio"
    alive(drive)


@pytest.mark.parametrize(
    "clip", ["data:audio/wav;base64,", "data:audio/wav;base64,????", "https://a.example/voice.wav"]
)
def test_c36_a_reference_clip_that_cannot_be_read_is_an_error_and_no_other_voice(clip):
    with pytest.raises(RealtimeError, match="ref_audio"):
        Drive({"ref_audio": clip})


@pytest.mark.parametrize("path", ["/etc/passwd", "../voice.wav", "file:///etc/passwd", "/dev/zero", "/nowhere"])
def test_c106_a_path_for_a_voice_is_refused_alike_whether_it_exists_or_not(path):
    with pytest.raises(RealtimeError) as refused:
        Drive({"ref_audio": path})
    assert str(refused.value) == (
        "ref_audio must be a data URL (data:audio/wav;base64,…); addresses and paths are not read"
    )


def test_c48_frame_groups_keep_their_order_and_their_number_is_bounded():
    drive = Drive(AUTO)
    pictures = [png()[:-4] + suffix for suffix in ("AAAA", "BBBB", "CCCC")]
    drive.append(loud(1000), video_frames=pictures[:2])
    drive.append(loud(1000), video_frames=pictures[2:])
    drive.run(1)
    frames = [command.unit.frames for command in drive.units]
    assert [len(group) for group in frames] == [2, 1]
    assert len({frame for group in frames for frame in group}) == 3
    assert error_code(drive.append(loud(1000), video_frames=pictures)) == "invalid_video_frames"


# --- E. long runs


def test_c56_a_session_that_may_last_a_minute_is_warned_and_then_ends():
    drive = Drive(AUTO, script=COUNTING, limits=Limits(max_session_s=60))
    (created,) = drive.of_type("session.created")
    assert created["session"]["expires_at"] == 160
    drive.run(29.9)
    assert not drive.of_type("session.warning")
    drive.run(0.2)
    (warning,) = drive.of_type("session.warning")
    assert (warning["code"], warning["details"]) == ("session_expires_soon", {"seconds_left": 30})
    drive.run(29)
    answering(drive, 0.5)
    item_id = drive.of_type("input_audio_buffer.speech_started")[0]["item_id"]
    assert item_id
    drive.run(2)
    done, expired = drive.of_type("response.done")[-1], drive.events[-1]
    assert done["response"]["status"] == "cancelled"
    assert (expired["type"], expired["reason"]) == ("session.expired", "max_session_time")
    assert (drive.outbox.closing.code, drive.outbox.closing.reason) == (1000, "max_session_time")


def test_c56_a_detached_session_ends_at_its_time_too():
    drive = Drive(AUTO, limits=Limits(max_session_s=20, disconnect_grace_s=100))
    drive.drop()
    drive.run(21)
    assert drive.session.is_over


# --- J. reconnect


def test_c117_the_handle_is_the_servers_and_a_fresh_session_does_not_claim_to_be_resumed():
    first, second = Drive(AUTO), Drive(AUTO)
    for drive in (first, second):
        assert drive.types()[:2] == ["session.created", "session.updated"]
        assert len(drive.events[0]["resume_token"]) == 43
        assert drive.events[0]["attachment_generation"] == 1
    asked = Drive({"id": "mine", "session_id": "mine", **AUTO})
    assert asked.events[0]["session"]["id"] == "s1"
