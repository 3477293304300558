import pytest

from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.openai_response import parse_openai_response
from antiphon.wire.realtime.openai_session import output_format, to_native


@pytest.mark.parametrize(
    ("form", "native"),
    [
        ({"type": "audio/pcm"}, {"type": "pcm16", "rate": 24_000}),
        ({"type": "audio/pcm", "rate": 48_000}, {"type": "pcm16", "rate": 48_000}),
        ({"type": "audio/pcmu"}, {"type": "g711_ulaw", "rate": 8_000}),
        ({"type": "audio/pcma"}, {"type": "g711_alaw", "rate": 8_000}),
        ("pcm16", {"type": "pcm16", "rate": 24_000}),
    ],
)
def test_input_formats(form: object, native: object):
    assert to_native({"audio": {"input": {"format": form}}}, {})["input_audio_format"] == native


@pytest.mark.parametrize(
    ("form", "native"),
    [
        ({"type": "audio/pcm", "rate": 24_000}, {"type": "pcm16", "rate": 24_000}),
        ({"type": "audio/pcma"}, {"type": "g711_alaw", "rate": 8_000}),
    ],
)
def test_output_formats(form: object, native: object):
    assert to_native({"audio": {"output": {"format": form}}}, {})["output_audio_format"] == native


@pytest.mark.parametrize("form", [{"type": "audio/pcm", "rate": 16_000}, "pcm_f32le", "wav"])
def test_speech_in_another_format_is_refused(form: object):
    with pytest.raises(RealtimeError) as caught:
        output_format(form, "audio.output.format")
    assert (caught.value.code, caught.value.param) == ("unsupported_audio_format", "audio.output.format")


@pytest.mark.parametrize(
    ("detection", "native", "auto"),
    [
        (None, None, False),
        ({"type": "semantic_vad", "eagerness": "high"}, None, True),
        ({"type": "server_vad", "idle_timeout_ms": 1}, {"type": "server_vad"}, True),
        ({"type": "server_vad", "create_response": False}, {"type": "server_vad", "create_response": False}, False),
    ],
)
def test_detectors(detection: object, native: object, auto: bool):
    session = to_native({"audio": {"input": {"turn_detection": detection}}}, {})
    assert session["turn_detection"] == native
    assert session["extra_body"] == {"auto_response": auto}


def test_what_is_not_said_is_left_as_it_is():
    assert to_native({"type": "realtime"}, {"voice": "v"}) == {"openai": {"voice": "v"}, "extra_body": {}}


def test_fields_of_a_response_without_effect_are_named():
    request = parse_openai_response({"tools": [], "temperature": None, "audio": {"output": {"voice": "v"}}})
    assert request.ignored == ("tools", "audio.output.voice")
