"""A whole session on a clock moved by hand."""

from msgspec import structs
from realtime_driving import AUTO, Drive, error_code, loud, quiet, slow

from antiphon.client.conformance.invariants import check_events
from antiphon.realtime.engine import Cancel, ContextNotice, Decided, EngineFailed, Speech, UnitDone
from antiphon.realtime.life import Life
from antiphon.realtime.limits import Limits
from antiphon.realtime.script import DEFAULT_SCRIPT, Answer, Piece, Script, tone

PACED = Script(answers=(Answer(pieces=DEFAULT_SCRIPT.answers[0].pieces, pieces_per_unit=1),))
OPEN_ENDED = Script(answers=(Answer(pieces=(Piece("on "),), pieces_per_unit=1, ends=False),))
SILENT_MODEL = Script(answers=(Answer(pieces=()),))


def speaking(**options) -> Drive:
    """A session whose model is in the middle of its first answer."""
    drive = Drive(AUTO, **options)
    drive.append(loud(1500))
    drive.commit()
    drive.run(0.1)
    assert drive.session.state.response is not None
    return drive


def test_a_whole_file_in_one_append_becomes_its_units_in_order():
    drive = Drive(AUTO)
    drive.append(loud(7500))
    drive.run(1)
    assert [command.unit.number for command in drive.units] == list(range(7))


def test_a_response_keeps_running_on_silence_paced_by_the_second():
    drive = Drive(AUTO, script=PACED)
    drive.append(loud(500))
    drive.commit()
    events = drive.run(10)
    done = next(event for event in events if event["type"] == "response.done")
    assert done["response"]["status"] == "completed"
    assert [command.unit.is_silence for command in drive.units] == [False, True, True, True]
    check_events(drive.events)


def test_real_audio_takes_the_place_of_silence():
    drive = Drive(AUTO, script=PACED)
    drive.append(loud(500))
    drive.commit()
    for _ in range(20):
        drive.run(0.2)
        drive.append(quiet(200))
    assert [command.unit.is_silence for command in drive.units] == [False] * 5
    assert len(drive.of_type("response.done")) == 1


def test_the_continuation_limit_ends_a_response_after_so_many_seconds():
    drive = Drive(AUTO, script=OPEN_ENDED, limits=Limits(continuation_limit_auto=3))
    drive.append(loud(500))
    drive.commit()
    start = drive.now
    drive.run(10)
    (done,) = drive.of_type("response.done")
    assert done["response"]["status_details"]["reason"] == "continuation_limit"
    assert drive.units[-1].unit.force_listen
    assert drive.session.state.last_submission_s == start + 3


def test_a_stale_epoch_output_is_dropped():
    drive = speaking()
    drive.send("response.cancel")
    assert drive.deliver(Speech(0, 1, tone(100), "late")) == []
    assert drive.deliver(Decided(0, 1, True)) == []
    assert drive.deliver(UnitDone(epoch=0, number=1, end_of_turn=True)) == []
    assert [command.epoch for command in drive.commands if isinstance(command, Cancel)] == [1]


def test_outputs_of_a_unit_that_is_not_in_flight_are_dropped():
    drive = Drive(AUTO)
    assert drive.deliver(Speech(0, 7, tone(100), "what")) == []
    assert drive.deliver(UnitDone(epoch=0, number=7, end_of_turn=True)) == []


def test_a_cancel_keeps_the_live_buffer():
    drive = speaking()
    drive.append(loud(400))
    drive.send("response.cancel")
    drive.append(loud(600))
    assert drive.units[-1].unit.epoch == 1


def test_barge_in_without_anything_active_still_raises_the_epoch():
    drive = Drive(AUTO)
    assert drive.types(drive.send("barge_in")) == ["input_audio_buffer.cleared"]
    assert drive.session.state.epoch == 1


def test_the_heard_prefix_is_what_the_engine_and_the_history_learn():
    drive = speaking()
    drive.send("playback.ack", played_ms=1000)
    drive.send("barge_in")
    (cancel,) = [command for command in drive.commands if isinstance(command, Cancel)]
    assert cancel.heard_text == "This "
    assert drive.session.state.conversation.history()[-1][1] == "This "


def test_a_response_that_nobody_heard_leaves_no_text():
    drive = speaking()
    drive.send("response.cancel")
    assert [text for _, text in drive.session.state.conversation.history()] == [""]


def test_unacknowledged_playback_counts_as_heard_after_its_length_and_the_slack():
    drive = speaking()
    drive.run(1)
    assert drive.session.state.is_in_progress
    drive.run(4 + 5)
    assert not drive.session.state.is_in_progress
    assert drive.session.state.conversation.history()[-1][1] == "This is a scripted answer."


def test_text_without_speech_fails_the_response_by_name():
    drive = Drive(AUTO, script=Script(answers=(Answer(pieces=(Piece("mute", 0),)),)))
    drive.append(loud(500))
    drive.commit()
    events = drive.run(1)
    assert error_code(events) == "runtime_data_plane_text_without_audio"
    (done,) = drive.of_type("response.done")
    assert done["response"]["status"] == "failed"
    check_events(drive.events)


def test_a_turn_without_output_is_a_terminal_listen():
    drive = Drive(AUTO, script=SILENT_MODEL)
    drive.append(loud(500))
    drive.commit()
    drive.run(1)
    kinds = drive.types()
    assert "response.speak" in kinds
    assert "response.output_audio.done" not in kinds
    check_events(drive.events)


def test_an_update_does_not_reach_the_running_response():
    drive = speaking()
    drive.send("session.update", session={"output_audio_format": "g711_ulaw"})
    drive.run(1)
    assert {event["format"] for event in drive.of_type("response.output_audio.delta")} == {"pcm16"}
    drive.append(loud(500))
    drive.commit()
    drive.run(1)
    assert drive.of_type("response.output_audio.delta")[-1]["sample_rate_hz"] == 8000


def test_a_refused_update_changes_nothing_and_sends_nothing_to_the_engine():
    drive = Drive({**AUTO, "instructions": "a"}, with_vad=False)
    before = drive.session.state.settings
    for session in ({"voice": "x", "model": "y"}, {"voice": "x", "turn_detection": {"type": "server_vad"}}):
        drive.send("session.update", session=session)
    assert drive.session.state.settings is before
    assert drive.commands == []


def test_too_many_updates_are_refused():
    drive = Drive(AUTO, limits=Limits(max_updates_per_minute=2))
    codes = [drive.types(drive.send("session.update", session={}))[0] for _ in range(3)]
    assert codes == ["session.updated", "session.updated", "error"]


def test_the_commit_at_the_limit_changes_nothing():
    drive = Drive(AUTO, script=slow())
    for _ in range(4):
        drive.append(loud(200))
        drive.commit()
    drive.append(loud(200))
    before = drive.session.state.buffer.num_samples
    assert error_code(drive.commit()) == "input_backpressure"
    assert drive.session.state.buffer.num_samples == before


def test_instructions_of_an_item_after_audio_are_stored_with_a_warning():
    drive = Drive(AUTO)
    drive.append(quiet(100))
    item = {"role": "system", "content": [{"type": "input_text", "text": "Be kind."}]}
    assert drive.types(drive.send("conversation.item.create", item=item))[-1] == "session.warning"


def test_an_audio_item_is_appended_and_committed_under_its_own_id():
    drive = Drive(AUTO)
    item = {"id": "mine", "role": "user", "content": [{"type": "input_audio", "audio": loud(700)}]}
    events = drive.send("conversation.item.create", item=item)
    assert drive.types(events).count("conversation.item.added") == 1
    committed = next(event for event in events if event["type"] == "input_audio_buffer.committed")
    assert committed["item_id"] == "mine"
    assert "audio" not in events[0]["item"]["content"][0]


def test_previous_item_ids_name_items_that_exist():
    drive = Drive(AUTO)
    for name, previous in (("a", "root"), ("b", None), ("c", "gone"), ("d", "a")):
        item = {"id": name, "role": "user", "content": [{"type": "input_text", "text": name}]}
        drive.send("conversation.item.create", item=item, previous_item_id=previous)
    added = {event["item"]["id"]: event["previous_item_id"] for event in drive.of_type("conversation.item.added")}
    assert added == {"a": None, "b": "a", "c": "b", "d": "a"}


def test_a_context_notice_becomes_a_warning():
    drive = Drive(AUTO)
    (warning,) = drive.deliver(ContextNotice("context_dropped", "two units left", {"units": 2}))
    assert (warning["type"], warning["code"]) == ("session.warning", "context_dropped")


def test_a_dead_engine_ends_the_session_once():
    drive = speaking()
    drive.deliver(EngineFailed("engine_dead", "gone"))
    drive.run(1)
    kinds = drive.types()
    assert [kind for kind in kinds if kind in ("session.expired", "session.closed")] == ["session.expired"]
    assert drive.session.life is Life.ENDED


def test_cleanup_that_never_comes_is_not_waited_for_for_ever():
    drive = Drive(AUTO)
    drive.send("session.close")
    drive.due.clear()
    drive.run(9)
    assert not drive.session.is_over
    drive.run(2)
    assert drive.session.is_over
    assert drive.types()[-1] == "session.closed"


def test_nothing_is_said_after_the_terminal_event():
    drive = speaking()
    drive.send("session.close")
    drive.run(1)
    assert drive.types()[-1] == "session.closed"
    assert drive.send("session.heartbeat") == []


def test_an_overflowing_client_loses_its_session_and_is_told():
    drive = speaking(limits=Limits(max_pending_output_bytes=100_000))
    drive._collect = lambda: None  # nobody reads the outbox any more
    for index in range(3):
        drive.session.handle(Speech(0, 1, tone(1000), f"{index}"), drive.now)
    assert drive.session.life is Life.CLOSING
    frames = []
    while (frame := drive.outbox.get()) is not None:
        frames.append(frame)
    assert any(b"output_backpressure" in frame for frame in frames)


def test_an_idle_socket_is_let_go_but_its_session_waits():
    drive = Drive({**AUTO, "idle_timeout_s": 5})
    drive.run(5.5)
    assert drive.session.life is Life.DETACHED
    assert drive.outbox.closing is not None


def test_a_session_that_cannot_be_resumed_ends_with_its_socket():
    drive = Drive(AUTO, can_resume=False)
    assert "resume_token" not in drive.events[0]
    drive.session.detach(1, drive.now)
    assert drive.session.life is Life.CLOSING


def test_the_public_session_shows_no_secret():
    drive = Drive({**AUTO, "ref_audio": "data:audio/wav;base64,AAAA", "tracing": "auto", "audio": {"input": {"x": 1}}})
    shown = drive.events[0]["session"]
    assert shown["ref_audio"].startswith("sha256:")
    assert "extra_body" not in shown
    assert shown["tracing"] == "auto"
    assert shown["audio"]["input"]["x"] == 1
    assert shown["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 16_000}


def test_two_hours_of_listening_leave_nothing_behind():
    drive = Drive(AUTO, limits=Limits(idle_ttl_s=None))
    for _ in range(7200):
        drive.append(quiet(1000))
        drive.run(1)
        drive.send("session.event_ack", server_event_seq=drive.session.state.journal.head)
        drive.events.clear()
        drive.commands.clear()
    state = drive.session.state
    assert (state.buffer.num_bytes, len(state.chain), state.journal.num_bytes) == (0, 0, 0)
    assert (len(state.conversation), len(drive.due)) == (0, 0)


def test_a_turn_mode_response_hears_the_whole_question_first():
    drive = Drive({}, script=structs.replace(DEFAULT_SCRIPT))
    drive.append(loud(2500))
    drive.commit(response_create=True)
    drive.run(2)
    assert [(command.unit.force_listen, command.unit.is_final) for command in drive.units] == [
        (True, False),
        (True, False),
        (False, True),
    ]
    check_events(drive.events)
