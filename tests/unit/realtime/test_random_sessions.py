"""Sessions under random events keep every invariant of the protocol, and end once."""

import random

import pytest
from openai.types.realtime import RealtimeServerEvent
from pydantic import TypeAdapter
from realtime_driving import AUTO, Drive, loud, quiet

from antiphon.client.conformance.invariants import check_events
from antiphon.realtime.dialects.openai import OpenAiDialect
from antiphon.realtime.script import DEFAULT_SCRIPT, Answer, Script

SDK_EVENT: TypeAdapter[RealtimeServerEvent] = TypeAdapter(RealtimeServerEvent)
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


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("detection", ["unset", None, {"type": "server_vad"}])
def test_random_events_of_openais_dialect_break_no_invariant(seed, detection):
    chance = random.Random(seed)
    drive = Drive(script=PACED, dialect=OpenAiDialect())
    if detection != "unset":
        drive.send("session.update", session={"type": "realtime", "audio": {"input": {"turn_detection": detection}}})
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Well?"}]}
    moves = [
        lambda: drive.append(loud(chance.randint(1, 1800))),
        lambda: drive.append(quiet(chance.randint(1, 1800))),
        drive.commit,
        lambda: drive.send("response.create", response={"metadata": {"seed": str(seed)}}),
        lambda: drive.send("response.cancel"),
        lambda: drive.send("input_audio_buffer.clear"),
        lambda: drive.send("output_audio_buffer.clear"),
        lambda: drive.send("conversation.item.create", item=item),
        lambda: (
            drive.send(
                "conversation.item.truncate",
                item_id=drive.of_type("response.output_item.added")[-1]["item"]["id"],
                content_index=0,
                audio_end_ms=chance.randint(0, 9000),
            )
            if drive.of_type("response.output_item.added")
            else None
        ),
    ]
    weights = [5, 4, 2, 2, 1, 1, 1, 1, 1]
    for _ in range(60):
        chance.choices(moves, weights)[0]()
        drive.run(chance.choice((0.0, 0.05, 0.3, 1.5)))
    drive.run(80)  # the last answer runs out of silence units
    check_events(drive.events)
    for event in drive.events:
        SDK_EVENT.validate_python(event)
    assert len(drive.of_type("response.created")) == len(drive.of_type("response.done")) > 0
    check_items(drive)
    drive.drop()
    drive.run(1)
    assert drive.session.is_over


def check_items(drive: Drive) -> None:
    """An item that is committed was started and stopped before, each once; items name only what was there."""
    known: set[str | None] = {None}
    for event in drive.of_type("conversation.item.added"):
        assert event["previous_item_id"] in known
        known.add(event["item"]["id"])
    committed = [event["item_id"] for event in drive.of_type("input_audio_buffer.committed")]
    assert len(committed) == len(set(committed))
    spoken = {event["item_id"] for event in drive.of_type("input_audio_buffer.speech_started")}
    stopped = {event["item_id"] for event in drive.of_type("input_audio_buffer.speech_stopped")}
    assert stopped <= spoken
    silent = {event["item"]["id"] for event in drive.of_type("conversation.item.added")} - spoken
    assert spoken & set(committed) == set(committed) - silent
