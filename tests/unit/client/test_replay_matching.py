from antiphon.client.replay.compare import SoundCheck, compare
from antiphon.client.replay.lanes import LaneBook
from antiphon.client.replay.matching import IdMap


def books(recorded, live):
    ids, sides = IdMap(), [LaneBook(), LaneBook()]
    for side, events in zip(sides, (recorded, live), strict=True):
        for event in events:
            side.add(event)
    for lane, events in sides[0].lanes.items():
        for old, new in zip(events, sides[1].lanes.get(lane, []), strict=False):
            ids.learn(old, new)
    return (*sides, ids)


def differences(recorded, live, sound=SoundCheck.EXACT):
    return [(item.lane, item.where, item.recorded, item.live) for item in compare(*books(recorded, live), sound)]


def done(response_id, status="completed", **fields):
    return {
        "type": "response.done",
        "response_id": response_id,
        "response": {"id": response_id, "status": status},
        **fields,
    }


def test_ids_times_and_sequence_numbers_are_no_difference():
    old = done("resp-a", event_id="1", server_event_seq=4, playback={"sent_ms": 3})
    assert differences([old], [done("resp-b", event_id="2", server_event_seq=9)]) == []


def test_another_status_is_a_difference_by_path():
    assert differences([done("resp-a")], [done("resp-b", "cancelled")]) == [
        ("response 1", "event 1, response.done: response.status", "completed", "cancelled")
    ]


def test_an_id_that_stands_for_another_than_before_is_a_difference():
    item = {"type": "conversation.item.deleted", "item_id": "i1"}
    again = {"type": "conversation.item.deleted", "item_id": "i1"}
    found = differences([item, again], [{**item, "item_id": "x"}, {**again, "item_id": "y"}])
    assert [entry[1] for entry in found] == ["event 2, conversation.item.deleted: item_id"]


def test_missing_and_further_events_are_named():
    assert differences([done("a")], []) == [("response 1", "event 1", "response.done", "(nothing)")]
    assert differences([], [{"type": "error"}]) == [("error", "event 1", "(nothing)", "error")]


def test_lanes_may_be_interleaved_as_chance_will():
    listen, warning = {"type": "response.listen"}, {"type": "session.warning"}
    assert differences([listen, warning, listen], [warning, listen, listen]) == []


def test_words_are_compared_whole_whatever_the_pieces():
    kind = "response.output_audio_transcript.delta"

    def pieces(*words):
        return [{"type": kind, "response_id": "resp-a", "delta": word} for word in words]

    assert differences(pieces("one ", "two"), pieces("one two")) == []
    assert differences(pieces("one"), pieces("two")) == [("response 1", f"{kind}, all together", "one", "two")]


def test_sound_is_compared_as_closely_as_asked():
    def sound(delta):
        return [{"type": "response.output_audio.delta", "response_id": "resp-a", "delta": delta}]

    assert len(differences(sound("AAAA"), sound("BBBB"))) == 1
    assert differences(sound("AAAA"), sound("BBBB"), SoundCheck.LENGTH) == []
    assert len(differences(sound("AAAA"), sound("AAAAAAAA"), SoundCheck.LENGTH)) == 1
    assert differences(sound("AAAA"), sound("AAAAAAAA"), SoundCheck.IGNORE) == []


def test_recorded_ids_are_replaced_wherever_they_stand():
    *_, ids = books([done("resp-a")], [done("resp-b")])
    assert ids.substitute({"response_id": "resp-a", "list": ["resp-a", 1]}) == {
        "response_id": "resp-b",
        "list": ["resp-b", 1],
    }
