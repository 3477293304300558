"""Outputs of a session onto the seconds of its input."""

from base64 import b64encode

import pytest

from antiphon.bench.duplex_load.reader import EventReader
from antiphon.bench.duplex_load.timeline import SessionRecord


def reader(num_units=3, began_s=100.0):
    return EventReader(SessionRecord(began_s=began_s), num_units)


def metadata(unit):
    return {} if unit is None else {"input_unit": unit}


def listen(unit=None):
    return {"type": "response.listen", "response": {"status": "listening", "metadata": metadata(unit)}}


def created(response_id="r"):
    return {"type": "response.created", "response_id": response_id, "response": {"id": response_id}}


def speak(unit=None, response_id="r"):
    return {"type": "response.speak", "response_id": response_id, "metadata": metadata(unit)}


def sound(unit=None, num_frames=24_000, response_id="r"):
    delta = b64encode(bytes(2 * num_frames)).decode()
    event = {"type": "response.output_audio.delta", "response_id": response_id, "delta": delta}
    return {**event, "sample_rate_hz": 24_000, "metadata": metadata(unit)}


def text(word, response_id="r"):
    return {"type": "response.output_audio_transcript.delta", "response_id": response_id, "delta": word}


def done(response_id="r", **response):
    return {"type": "response.done", "response_id": response_id, "response": {"status": "completed", **response}}


def feed(found, *events):
    for at_s, event in events:
        found.take(event, at_s)
    return found.record


def test_a_second_is_timed_from_the_end_of_its_last_sample():
    record = feed(reader(), (101.05, listen(0)), (102.06, created()), (102.06, speak(1)), (102.3, sound(1)))
    first, second, third = record.units
    assert first.decision_s == pytest.approx(0.05)
    assert (first.audio_s, first.has_spoken) == (None, False)
    assert (second.decision_s, second.audio_s) == (pytest.approx(0.06), pytest.approx(0.3))
    assert (third.decision_s, third.lateness_s) == (None, None)


def test_late_is_what_comes_behind_the_end_of_the_next_second():
    record = feed(reader(), (101.9, listen(0)), (103.25, listen(1)))
    assert [unit.lateness_s for unit in record.units] == [0.0, pytest.approx(0.25), None]


def test_the_last_piece_of_a_second_counts_for_its_lateness_and_the_first_for_its_sound():
    record = feed(reader(), (101.1, created()), (101.1, speak(0)), (101.2, sound(0)), (102.5, sound(0)))
    assert record.units[0].audio_s == pytest.approx(0.2)
    assert record.units[0].lateness_s == pytest.approx(0.5)


def test_sound_for_silence_of_the_servers_own_is_of_no_second():
    record = feed(reader(), (101.1, created()), (101.1, speak(0)), (101.2, sound(0)), (102.2, sound(None)))
    assert record.units[1].first_audio_s is None
    assert len(record.responses[0].audios) == 2


def test_a_server_that_names_no_seconds_answers_one_after_the_other():
    record = feed(
        reader(),
        (101.05, listen()),
        (102.05, created()),
        (102.05, speak()),
        (102.2, sound()),
        (103.2, sound()),
        (103.3, sound()),
    )
    assert [unit.audio_s for unit in record.units] == [None, pytest.approx(0.2), pytest.approx(0.2)]
    assert record.num_unmatched == 1


def test_a_response_is_timed_from_the_second_that_it_answers():
    response = feed(
        reader(),
        (102.05, created()),
        (102.06, speak(1)),
        (102.2, sound(1)),
        (102.21, text("hi")),
        (103.2, sound(2)),
        (103.3, done()),
    ).responses[0]
    assert (response.ttfp_s, response.ttft_s) == (pytest.approx(0.2), pytest.approx(0.21))
    assert (response.audio_duration_s, response.underrun_s) == (2.0, 0.0)
    assert response.rtf == pytest.approx((103.2 - 102.05) / 2)
    assert (response.origin, response.status) == ("end of unit", "completed")


def test_a_player_that_runs_dry_is_counted():
    record = feed(reader(), (101.0, created()), (101.0, sound(0)), (102.4, sound(1)))
    assert record.responses[0].underrun_s == pytest.approx(0.4)


def test_the_servers_own_times_go_first():
    told = {"ttft_ms": 30.0, "ttfp_ms": 40.0, "measurement_origin": {"ttft": "x"}}
    shown = {"metadata": {"vllm_omni": {"response_request_metrics": told}}, "usage": {"output_tokens": 7}}
    response = feed(reader(), (101.0, created()), (101.5, sound(0)), (102.0, done(**shown))).responses[0]
    assert (response.ttft_s, response.ttfp_s, response.num_output_tokens) == (0.03, 0.04, 7)
    assert response.origin == "server_monotonic_request_start"


def test_stream_times_begin_with_the_first_sample():
    record = feed(reader(), (102.0, created()), (102.5, sound(1)), (102.6, text("a")), (103.5, sound(2)))
    assert (record.stream_ttfp_s, record.stream_ttft_s) == (2.5, pytest.approx(2.6))
    assert record.stream_rtf == pytest.approx(3.5 / 2)


@pytest.mark.parametrize(
    ("event", "complaint"),
    [
        ({"type": "error", "error": {"code": "bad_audio", "message": "why"}}, "bad_audio: why"),
        ({"type": "error", "error": "why", "code": "unsupported"}, "unsupported: why"),
        ({"type": "session.expired", "reason": "idle"}, "the server ended the session: idle"),
    ],
)
def test_what_goes_wrong_is_kept(event, complaint):
    assert feed(reader(), (101.0, event)).error == complaint


def test_an_end_that_was_asked_for_is_no_error():
    found = reader()
    record = feed(found, (101.0, {"type": "session.closed", "reason": "client_close"}))
    assert found.is_closed
    assert record.error is None


def test_warnings_are_counted_by_code():
    record = feed(reader(), (101.0, {"type": "session.warning", "code": "context_nearly_full"}))
    assert record.notices == ["context_nearly_full"]


def test_a_session_is_settled_once_its_last_second_is_spoken_out():
    found = reader(num_units=1)
    feed(found, (101.0, created()), (101.0, speak(0)))
    assert not found.is_settled(109.0)
    feed(found, (101.2, sound(0)))
    assert not found.is_settled(101.6)
    assert found.is_settled(101.8)
