"""Every event of a client and every output of an engine, in every situation of a session.

The tables of life and turn are tried pair by pair in test_machines.py; here it is the session that fires them.
"""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from realtime_driving import AUTO, Drive, loud

from antiphon.client.conformance.invariants import check_events
from antiphon.realtime.engine import (
    ContextNotice,
    Decided,
    EngineClosed,
    EngineFailed,
    EngineOutput,
    Speech,
    UnitDone,
    UnitFailed,
)
from antiphon.realtime.life import Life
from antiphon.realtime.script import Answer, Piece, Script
from antiphon.realtime.turn import Turn
from antiphon.wire.realtime.parse import EVENT_TYPES

LONG = Script(answers=(Answer(pieces=tuple(Piece(f"word{index} ", 500) for index in range(4)), pieces_per_unit=2),))
TURN = {"extra_body": {"auto_response": False}}


def idle(session: dict[str, Any]) -> Drive:
    return Drive(session, script=LONG)


def user_speaking(session: dict[str, Any]) -> Drive:
    drive = idle(session)
    drive.append(loud(700))
    return drive


def committed(session: dict[str, Any]) -> Drive:
    drive = user_speaking(session)
    drive.commit()
    return drive


def generating(session: dict[str, Any]) -> Drive:
    drive = user_speaking(session)
    drive.commit(response_create=True)
    drive.run(0.12)
    return drive


def playing(session: dict[str, Any]) -> Drive:
    drive = generating(session)
    drive.run(2.5)
    return drive


def barged_in(session: dict[str, Any]) -> Drive:
    drive = generating(session)
    drive.send("barge_in")
    return drive


def detached(session: dict[str, Any]) -> Drive:
    drive = generating(session)
    drive.drop()
    return drive


def closing(session: dict[str, Any]) -> Drive:
    drive = generating(session)
    drive.send("session.close")
    return drive


def ended(session: dict[str, Any]) -> Drive:
    drive = closing(session)
    drive.run(1)
    return drive


SITUATIONS: dict[str, tuple[Callable[[dict[str, Any]], Drive], Life, Turn]] = {
    "idle": (idle, Life.ATTACHED, Turn.IDLE),
    "user speaking": (user_speaking, Life.ATTACHED, Turn.USER_SPEAKING),
    "committed": (committed, Life.ATTACHED, Turn.USER_COMMITTED),
    "generating": (generating, Life.ATTACHED, Turn.GENERATING),
    "playing": (playing, Life.ATTACHED, Turn.PLAYING),
    "barged in": (barged_in, Life.ATTACHED, Turn.BARGE_IN),
    "detached": (detached, Life.DETACHED, Turn.GENERATING),
    "closing": (closing, Life.CLOSING, Turn.IDLE),
    "ended": (ended, Life.ENDED, Turn.IDLE),
}
FIELDS: dict[str, dict[str, Any]] = {
    "session.update": {"session": {"temperature": 0.5}},
    "session.event_ack": {"server_event_seq": 1},
    "input_audio_buffer.append": {"audio": loud(300)},
    "input.text.append": {"text": "hello"},
    "conversation.item.create": {
        "item": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi."}]}
    },
    "conversation.item.retrieve": {"item_id": "item_none"},
    "conversation.item.delete": {"item_id": "item_none"},
    "conversation.item.truncate": {"item_id": "item_none", "audio_end_ms": 100},
    "turn.signal": {"event": "user_started"},
    "playback.ack": {"played_ms": 100},
}


def finish(drive: Drive) -> None:
    """Whatever happened, the session ends once, and so does each of its responses."""
    drive.run(1)
    if not drive.session.is_over:
        drive.session.end("test")
    drive.run(12)
    assert drive.session.is_over
    check_events(drive.events)
    created = [event["response_id"] for event in drive.of_type("response.created")]
    done = [event["response_id"] for event in drive.of_type("response.done")]
    if drive.session.state.emitter.outbox is not None:
        assert created == done
        assert len(drive.of_type("session.closed") + drive.of_type("session.expired")) == 1


@pytest.mark.parametrize("name", SITUATIONS)
@pytest.mark.parametrize("session", [AUTO, TURN], ids=["auto", "turn"])
def test_the_situations_are_what_they_are_called(name: str, session: dict[str, Any]):
    make, life, turn = SITUATIONS[name]
    state = make(session).session.state
    if name == "committed" and session is AUTO:
        assert state.life.state is life
        return
    assert (state.life.state, state.turn.state) == (life, turn)


@pytest.mark.parametrize(
    ("name", "kind"), list(product([name for name in SITUATIONS if name != "detached"], EVENT_TYPES))
)
@pytest.mark.parametrize("session", [AUTO, TURN], ids=["auto", "turn"])
def test_every_event_of_a_client_in_every_situation(name: str, kind: str, session: dict[str, Any]):
    drive = SITUATIONS[name][0](session)
    life = drive.session.life
    answered = drive.send(kind, event_id="mine", **FIELDS.get(kind, {}))
    errors = [event["error"] for event in answered if event["type"] == "error"]
    assert len(errors) <= 1
    assert all(error["event_id"] == "mine" for error in errors)
    if life in (Life.CLOSING, Life.ENDED):
        assert answered == []
        assert drive.session.life is life
    elif kind == "session.close":
        assert drive.session.life is Life.CLOSING
    else:
        assert drive.session.life is Life.ATTACHED
    finish(drive)


def outputs(drive: Drive) -> list[EngineOutput]:
    """One of each kind for the unit in flight, and for one that nobody waits for."""
    link = drive.session.state.chain.in_flight
    epoch = drive.session.state.epoch
    found: list[EngineOutput] = [
        ContextNotice("context_nearly_full", "soon", {}),
        EngineFailed("engine_error", "broken"),
        EngineClosed(),
    ]
    places = [(epoch, 999), (epoch - 1, 0)] + ([] if link is None else [(link.unit.epoch, link.unit.number)])
    for at_epoch, number in places:
        found += [
            Decided(at_epoch, number, True),
            Decided(at_epoch, number, False),
            Speech(at_epoch, number, np.zeros(2400, np.float32), "text "),
            Speech(at_epoch, number, np.zeros(0, np.float32), "only text "),
            UnitDone(epoch=at_epoch, number=number, end_of_turn=False),
            UnitDone(epoch=at_epoch, number=number, end_of_turn=True),
            UnitFailed(at_epoch, number, "talker_context_exceeded", "too long"),
        ]
    return found


@pytest.mark.parametrize("name", SITUATIONS)
@pytest.mark.parametrize("session", [AUTO, TURN], ids=["auto", "turn"])
def test_every_output_of_an_engine_in_every_situation(name: str, session: dict[str, Any]):
    for index in range(len(outputs(SITUATIONS[name][0](session)))):
        drive = SITUATIONS[name][0](session)
        life = drive.session.life
        output = outputs(drive)[index]
        told = drive.deliver(output)
        if life is Life.ENDED or (life is Life.CLOSING and not isinstance(output, EngineClosed)):
            assert told == []
            assert drive.session.life is life
        elif isinstance(output, Decided | Speech | UnitDone | UnitFailed) and output.number == 999:
            assert told == []
        finish(drive)


@pytest.mark.parametrize("name", SITUATIONS)
def test_time_alone_ends_every_session(name: str):
    """A client that never comes back, or never says anything again, holds its slot for so long and no longer."""
    drive = SITUATIONS[name][0](AUTO)
    drive.run(1000)
    assert drive.session.is_over


def test_every_event_of_a_client_is_tried_with_fields_that_it_needs():
    assert set(FIELDS) <= set(EVENT_TYPES)
