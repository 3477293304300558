"""Two hours in one session, by a clock that is moved by hand: nothing grows. Cases C54, C102."""

import gc

import numpy as np
import pytest
from realtime_driving import AUTO, Drive, float32, loud, quiet

from antiphon.client.conformance.invariants import check_events
from antiphon.realtime.dialects.map_realtime import MapDialect
from antiphon.realtime.dialects.openai import OpenAiDialect
from antiphon.realtime.limits import Limits
from antiphon.realtime.playback import MAX_MARKS, PlaybackLedger
from antiphon.realtime.script import Answer, Piece, Script, tone

HOUR_S, TURN_S = 3600, 10
MAX_ITEMS = 100
LIMITS = Limits(max_items=MAX_ITEMS, resume_replay_max_bytes_per_session=2**19)
ANSWER = Script(answers=(Answer(pieces=tuple(Piece(f"word{index} ", 200) for index in range(5))),))
LOUD, QUIET = loud(1000), quiet(1000)
LOUD_24K, QUIET_24K = loud(1000, 24_000), quiet(1500)  # of 24 kHz
LOUD_FLOAT, QUIET_FLOAT = float32(tone(1000, 16_000)), float32(np.zeros(16_000, np.float32))


def turn_of_vllm(drive: Drive, *, acknowledges: bool) -> None:
    for audio in (LOUD, LOUD, QUIET):
        drive.append(audio)
        drive.run(1)
    drive.run(2)
    if acknowledges:
        done = drive.of_type("response.done")[-1]
        drive.send("playback.ack", played_ms=1000, response_id=done["response_id"])
        drive.send("session.event_ack", server_event_seq=drive.session.state.journal.head)
    drive.commit()
    drive.run(TURN_S - 5)


def turn_of_openai(drive: Drive) -> None:
    for audio in (LOUD_24K, LOUD_24K, QUIET_24K, QUIET_24K):
        drive.append(audio)
        drive.run(1)
    drive.run(TURN_S - 4)


def turn_of_openbmb(drive: Drive) -> None:
    for audio in (LOUD_FLOAT, LOUD_FLOAT, QUIET_FLOAT):
        drive.send("input.append", input={"audio": audio})
        drive.run(1)
    drive.run(TURN_S - 3)


SESSIONS = {
    "acknowledged": (
        lambda: Drive(AUTO, script=ANSWER, limits=LIMITS),
        lambda drive: turn_of_vllm(drive, acknowledges=True),
    ),
    "never acknowledged": (
        lambda: Drive(AUTO, script=ANSWER, limits=LIMITS),
        lambda drive: turn_of_vllm(drive, acknowledges=False),
    ),
    "openai": (lambda: Drive(script=ANSWER, limits=LIMITS, dialect=OpenAiDialect()), turn_of_openai),
    "map.realtime": (lambda: Drive(script=ANSWER, limits=LIMITS, dialect=MapDialect()), turn_of_openbmb),
}


@pytest.mark.parametrize("name", SESSIONS)
def test_two_hours_of_talk_grow_nothing(name: str):
    make, talk = SESSIONS[name]
    drive = make()
    num_objects = []
    for _ in range(2):
        for _ in range(HOUR_S // TURN_S):
            talk(drive)
            if name != "map.realtime":
                assert len(drive.of_type("response.done")) == 1
                check_events(drive.events)
            else:
                assert len(drive.of_type("response.listen")) == 1
            drive.events.clear()
            drive.commands.clear()
        gc.collect()
        num_objects.append(len(gc.get_objects()))
        state = drive.session.state
        assert state.journal.num_bytes <= LIMITS.resume_replay_max_bytes_per_session
        assert len(state.conversation) <= MAX_ITEMS
        assert state.ledger.num_kept <= PlaybackLedger.KEPT
        assert state.ledger.owed() == []
        assert (state.buffer.num_bytes < 64_000, len(state.chain), len(drive.due)) == (True, 0, 0)
    assert num_objects[1] - num_objects[0] < 200
    assert drive.session.state.life.state.value == "attached"


def test_an_answer_of_two_hours_does_not_grow_its_events():
    """The model talks on while the user's microphone stays open."""
    endless = Script(answers=(Answer(pieces=(Piece("on and on ", 40),), pieces_per_unit=1, ends=False),))
    drive = Drive(AUTO, script=endless, limits=LIMITS)
    sizes = []
    for _ in range(2 * HOUR_S):
        drive.append(LOUD if not sizes else QUIET)
        drive.run(0.99)  # a second of the server's own silence would be due at 1
        drive.send("session.event_ack", server_event_seq=drive.session.state.journal.head)
        sizes.append(max((len(str(event)) for event in drive.events), default=0))
        drive.events.clear()
        drive.commands.clear()
    response = drive.session.state.response
    assert response is not None
    assert len(response.playback.marks) <= MAX_MARKS
    assert max(sizes[HOUR_S:]) < 1.2 * max(sizes[:HOUR_S])
    positions = [mark.audio_end_ms for mark in response.playback.marks]
    assert positions == sorted(positions)
    assert positions[-1] == response.playback.sent_ms
