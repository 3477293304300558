"""Sessions under random events keep every invariant of the protocol, and end once."""

import random

import pytest
from realtime_driving import AUTO, Drive, loud, quiet

from antiphon.client.conformance.invariants import check_events
from antiphon.realtime.script import DEFAULT_SCRIPT, Answer, Script

PACED = Script(answers=(*DEFAULT_SCRIPT.answers, Answer(pieces=DEFAULT_SCRIPT.answers[0].pieces, pieces_per_unit=1)))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("session", [AUTO, {}, {**AUTO, "turn_detection": {"type": "server_vad"}}])
def test_random_events_break_no_invariant(seed, session):
    chance = random.Random(seed)
    drive = Drive(session, script=PACED)
    moves = [
        lambda: drive.append(loud(chance.randint(1, 1800))),
        lambda: drive.append(quiet(chance.randint(1, 1800))),
        lambda: drive.commit(response_create=chance.random() < 0.7),
        lambda: drive.send("response.create"),
        lambda: drive.send("response.cancel"),
        lambda: drive.send("barge_in"),
        lambda: drive.send("output_audio_buffer.clear"),
        lambda: drive.send("input_audio_buffer.clear"),
        lambda: drive.send("playback.ack", played_ms=chance.randint(0, 5000)),
        lambda: drive.append(loud(300), force_listen=True),
        lambda: drive.append(loud(300), overlap_action="interrupt"),
    ]
    weights = [5, 3, 5, 1, 1, 1, 1, 1, 2, 1, 1]
    for _ in range(60):
        chance.choices(moves, weights)[0]()
        drive.run(chance.choice((0.0, 0.05, 0.3, 1.5)))
    drive.send("session.close")
    drive.run(1)
    check_events(drive.events)
    assert drive.session.is_over
    created, done = len(drive.of_type("response.created")), len(drive.of_type("response.done"))
    assert created == done > 0
    assert len(drive.of_type("session.closed")) == 1
