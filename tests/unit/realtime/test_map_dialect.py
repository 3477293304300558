"""OpenBMB's dialect at the edge of a session; order and the end of turns are also in the golden file."""

import logging
from base64 import b64decode, b64encode

import numpy as np
import pytest
from realtime_driving import Drive, float32

from antiphon.client.conformance.sounds import encode
from antiphon.realtime.dialects.map_opening import session_of
from antiphon.realtime.dialects.map_realtime import MapDialect
from antiphon.realtime.engine import Append, EngineFailed
from antiphon.realtime.limits import Limits
from antiphon.realtime.opening import Opening, opening_settings
from antiphon.realtime.script import tone
from antiphon.realtime.settings import SessionSettings
from antiphon.realtime.voice import VoiceClip
from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.map_client import MapConfig, MapPayload, MapVoice

LOUD, QUIET = float32(tone(1000, 16_000)), float32(np.zeros(16_000, np.float32))


def append(drive, audio, **fields):
    return drive.send("input.append", input={"audio": audio, **fields})


def speaking(**options):
    """A session in the middle of an answer."""
    drive = Drive(dialect=MapDialect(), **options)
    append(drive, LOUD)
    append(drive, QUIET)
    drive.run(0.07)
    assert [event["kind"] for event in drive.of_type("response.output.delta")][-2:] == ["text", "audio"]
    return drive


def ends(events):
    return [event for event in events if event["type"] == "response.listen"]


def test_a_unit_that_is_listened_to_is_a_beat_and_no_end_of_a_turn():
    drive = Drive(dialect=MapDialect())
    append(drive, QUIET)
    (beat,) = [event for event in drive.run(1) if event["type"] == "response.output.delta"]
    assert (beat["kind"], beat["end_of_turn"]) == ("listen", False)
    assert not beat.keys() & {"text", "audio", "usage"}


def test_force_listen_during_speech_cancels_and_makes_the_unit_listen():
    drive = speaking()
    answered = append(drive, QUIET, force_listen=True)
    assert [event["type"] for event in answered] == ["response.output.delta", "response.listen"]
    assert drive.session.state.epoch == 1
    units = [command.unit for command in drive.commands if isinstance(command, Append)]
    assert units[-1].force_listen
    assert not [event for event in drive.run(3) if event.get("kind") in ("text", "audio")]


def test_force_listen_without_speech_cancels_nothing():
    drive = Drive(dialect=MapDialect())
    append(drive, QUIET, force_listen=True)
    assert drive.session.state.epoch == 0
    assert drive.units[0].unit.force_listen


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "nonsense"},
        {"type": 5},
        {"type": "input.append"},
        {"type": "input.append", "input": {"audio": 5}},
        {"type": "input.append", "input": {"audio": "????"}},
        {"type": "input.append", "input": {"audio": "AAAA"}},
        {"type": "input.append", "input": {}},
        {"type": "input.append", "input": {"audio": QUIET, "video_frames": ["AAAA"]}},
        {"type": "session.init", "payload": {}},
        {"type": "input_audio_buffer.append", "audio": "AAAA"},
    ],
)
def test_a_mistake_is_logged_and_ends_nothing(frame, caplog):
    drive = Drive(dialect=MapDialect())
    with caplog.at_level(logging.INFO):
        assert drive.send(frame.pop("type"), **frame) == []
    assert "refused" in caplog.text
    append(drive, QUIET)
    assert drive.run(1)


def test_an_engine_that_gives_up_is_an_error_and_then_the_end():
    drive = speaking()
    drive.deliver(EngineFailed("engine_error", "it broke"))
    error, closed = drive.run(1)[-2:]
    assert error["error"] == {"code": "engine_error", "message": "it broke"}
    assert (closed["type"], closed["reason"]) == ("session.closed", "request_cleanup")
    assert len(ends(drive.events)) == 1


def test_the_idle_end_and_the_clients_own_have_a_reason_and_no_error():
    idle = Drive(dialect=MapDialect(), limits=Limits(idle_ttl_s=5.0))
    assert [(event["type"], event["reason"]) for event in idle.run(10)] == [("session.closed", "idle_ttl_expired")]
    assert idle.outbox.closing.code == 1000
    left = speaking()
    left.send("session.close", reason="user_stop")
    left.run(1)
    assert [event["type"] for event in left.events[-2:]] == ["response.listen", "session.closed"]
    assert left.events[-1]["reason"] == "user_stop"


def test_a_client_that_says_nothing_is_told_why_it_has_to_go():
    drive = Drive({"idle_timeout_s": 5}, dialect=MapDialect())
    assert [event["reason"] for event in drive.run(10)] == ["idle_timeout"]
    assert drive.session.is_over


def test_a_socket_that_is_lost_frees_its_slot_at_once():
    drive = speaking()
    drive.drop()
    drive.run(0.1)
    assert drive.session.is_over


def test_usage_is_the_sum_over_the_session():
    drive = speaking()
    drive.run(3)
    append(drive, LOUD)
    append(drive, QUIET)
    drive.run(5)
    first, second = (event["usage"] for event in ends(drive.events))
    total = drive.session.state.total
    assert second["input_tokens"] == total.num_input_tokens > first["input_tokens"]
    assert second["output_tokens"] == total.num_output_tokens == 2 * first["output_tokens"]
    assert second["total_tokens"] == second["input_tokens"] + second["output_tokens"]
    assert second["input_tokens_details"] == {"audio_tokens": 40, "vision_tokens": 0}


def test_what_was_made_counts_as_heard():
    drive = speaking()
    drive.run(3)
    conversation = drive.session.state.conversation
    assert conversation.get(conversation.tail).heard == "This is a scripted answer."


def test_sound_is_32_bit_float():
    drive = speaking()
    sound = next(event["audio"] for event in drive.events if event.get("kind") == "audio")
    np.testing.assert_array_equal(np.frombuffer(b64decode(sound), "<f4"), tone(1000))


# --- session.init


def settings(payload):
    defaults = MapDialect().defaults(SessionSettings(reference=VoiceClip(b"default")))
    return opening_settings(Opening(session_of(payload)), model="m", defaults=defaults)


def test_an_empty_opening_has_the_servers_settings():
    plain = settings(MapPayload())
    assert (plain.auto_response, plain.force_listen_count, plain.overlap_policy) == (True, 0, "listen_only")
    assert plain.reference == VoiceClip(b"default")
    assert plain.speaks


def test_every_field_of_the_opening_is_honoured():
    config = MapConfig(
        length_penalty=1.2, max_tokens=15, temperature=0.0, max_kv_tokens=4000, tts_enabled=False, vision_hd=True
    )
    got = settings(MapPayload(system_prompt="Be brief.", config=config, max_slice_nums=1))
    assert (got.instructions, got.length_penalty, got.max_unit_tokens) == ("Be brief.", 1.2, 15)
    assert (got.temperature, got.modalities) == (0.0, ("text",))
    assert (got.window.mode, got.window.high_tokens, got.window.low_tokens) == ("basic", 4000, 3000)


@pytest.mark.parametrize("magic", [b"RIFF....WAVE", b"ID3\x04", b"fLaC", b"OggS", b"\xff\xfb\x90\x64" + b"\x7f" * 400])
def test_an_audio_file_is_kept_as_it_is(magic):
    voice = MapVoice(ref_audio_base64=encode(magic))
    assert settings(MapPayload(voice=voice)).reference.data == magic


def test_bare_samples_become_a_file_even_where_they_begin_like_an_mp3():
    samples = tone(1000, 16_000).copy()
    samples[0] = np.frombuffer(b"\xff\xfb\x00\x3e", "<f4")[0]
    voice = MapVoice(tts_ref_audio_base64=b64encode(samples.astype("<f4").tobytes()).decode())
    data = settings(MapPayload(voice=voice)).reference.data
    assert data.startswith(b"RIFF")
    np.testing.assert_allclose(np.frombuffer(data[44:], "<i2") / 32767, samples, atol=1e-4)


@pytest.mark.parametrize(
    ("payload", "param"),
    [
        (MapPayload(voice=MapVoice(ref_audio_base64="?")), "voice.ref_audio_base64"),
        (MapPayload(voice=MapVoice(ref_audio_base64=encode(b"abc"))), "voice.ref_audio_base64"),
        (
            MapPayload(voice=MapVoice(ref_audio_base64="AAAA", tts_ref_audio_base64="AAAB")),
            "voice.tts_ref_audio_base64",
        ),
        (MapPayload(max_slice_nums=2), "max_slice_nums"),
        (MapPayload(max_slice_nums=True), "max_slice_nums"),
    ],
)
def test_what_cannot_be_is_refused_by_name(payload, param):
    with pytest.raises(RealtimeError) as refused:
        session_of(payload)
    assert refused.value.param == param
