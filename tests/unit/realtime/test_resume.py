"""Resume, takeover and loss, with the clock in hand (specification section 10)."""

import json

import pytest
from realtime_driving import AUTO, Drive, loud

from antiphon.realtime.life import Life
from antiphon.realtime.limits import Limits
from antiphon.realtime.outbox import Outbox
from antiphon.realtime.resume import ResumeRequest, parse_resume
from antiphon.wire.realtime.client_events import SessionResume
from antiphon.wire.realtime.errors import RealtimeError


def token(drive: Drive) -> str:
    return [event for event in drive.events if "resume_token" in event][-1]["resume_token"]


def attach(drive: Drive, with_token: str, seq: int) -> Outbox:
    box = Outbox(drive.limits)
    drive.session.attach(ResumeRequest("s1", with_token, seq), box, drive.now)
    drive.outbox = box
    drive._collect()
    return box


def refused(drive: Drive, with_token: str, seq: int) -> str:
    with pytest.raises(RealtimeError) as caught:
        attach(drive, with_token, seq)
    return caught.value.code


def test_what_the_model_said_while_detached_is_replayed_without_a_gap():
    drive = Drive(AUTO)
    drive.append(loud(1500))
    drive.commit()
    seen = drive.events[-1]["server_event_seq"]
    drive.session.detach(1, drive.now)
    drive.run(3)
    mark = len(drive.events)
    attach(drive, token(drive), seen)
    resumed, *replayed = drive.events[mark:]
    assert (resumed["type"], resumed["attachment_generation"]) == ("session.resumed", 2)
    numbers = [event["server_event_seq"] for event in replayed]
    assert numbers == list(range(seen + 1, seen + 1 + len(numbers)))
    assert "response.done" in drive.types(replayed)


def test_a_takeover_replaces_the_old_socket_and_its_loss_detaches_nobody():
    drive = Drive(AUTO)
    old = drive.outbox
    attach(drive, token(drive), 1)
    frame = old.get()
    assert frame is not None
    assert json.loads(frame)["type"] == "session.replaced"
    assert old.closing is not None
    drive.session.detach(1, drive.now)
    assert drive.session.life is Life.ATTACHED


def test_a_refused_resume_leaves_the_old_socket_alone():
    drive = Drive(AUTO)
    before = drive.outbox
    assert refused(drive, "wrong", 1) == "invalid_resume_token"
    assert refused(drive, token(drive), 99) == "session_resume_conflict"
    assert drive.session.state.emitter.outbox is before
    assert drive.session.generation == 1


def test_a_resume_that_was_never_told_may_be_asked_for_again_with_the_old_token():
    drive = Drive(AUTO)
    old = token(drive)
    drive.session.detach(1, drive.now)
    attach(drive, old, 1)
    drive.session.detach(2, drive.now)
    attach(drive, old, 1)
    assert drive.session.generation == 3


def test_the_old_token_takes_nothing_from_an_attached_client():
    drive = Drive(AUTO)
    old = token(drive)
    attach(drive, old, 1)
    assert refused(drive, old, 1) == "invalid_resume_token"


def test_a_client_behind_the_boundary_has_to_resync():
    drive = Drive(AUTO)
    for _ in range(3):
        drive.send("session.heartbeat")
    drive.send("session.event_ack", server_event_seq=3)
    assert refused(drive, token(drive), 2) == "journal_gap"
    drive.run(61)
    assert refused(drive, token(drive), 3) == "journal_gap"


def test_an_overflown_journal_is_told_once_and_numbers_stop():
    drive = Drive(AUTO, limits=Limits(resume_replay_max_bytes_per_session=4000))
    for _ in range(40):
        drive.send("session.heartbeat")
    assert drive.types().count("session.resync_required") == 1
    position = drive.types().index("session.resync_required")
    assert all("server_event_seq" not in event for event in drive.events[position:])
    assert drive.types()[-1] == "session.heartbeat_ack"


def test_grace_ends_a_detached_session_at_its_second():
    drive = Drive(AUTO)
    drive.session.detach(1, drive.now)
    drive.run(29.9)
    assert drive.session.life is Life.DETACHED
    drive.run(0.2)
    assert drive.session.is_over


def test_an_idle_session_expires_but_not_while_the_model_works():
    drive = Drive(AUTO, limits=Limits(idle_ttl_s=2))
    drive.send("session.heartbeat")
    drive.run(1.9)
    drive.send("session.heartbeat")
    drive.run(2.1)
    assert drive.of_type("session.expired")[0]["reason"] == "idle_ttl_expired"


def test_a_resume_in_the_middle_of_a_session_is_refused():
    drive = Drive(AUTO)
    (event,) = drive.send("session.resume", session_id="s1", resume_token="x")
    assert event["error"]["code"] == "unsupported_session_resume"


@pytest.mark.parametrize(
    "event",
    [
        SessionResume(session_id="", resume_token="t"),
        SessionResume(session_id="s", resume_token=3),
        SessionResume(session_id="s", resume_token="t", last_received_server_event_seq=-1),
        SessionResume(session_id="s", resume_token="t", last_received_server_event_seq=True),
    ],
)
def test_a_resume_of_the_wrong_shape_is_refused(event):
    with pytest.raises(RealtimeError) as caught:
        parse_resume(event)
    assert caught.value.code == "invalid_session_resume"
