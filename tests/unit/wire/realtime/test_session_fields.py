import pytest
from msgspec import UNSET

from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.formats import AudioFormat, Encoding, parse_input_format, parse_output_format, parse_rate
from antiphon.wire.realtime.items import MessageItem, parse_item
from antiphon.wire.realtime.response_options import parse_response_options
from antiphon.wire.realtime.session_fields import parse_session
from antiphon.wire.realtime.turn_detection import ServerVad
from antiphon.wire.realtime.video_frames import parse_video_frames


def refused(call, *args) -> str:
    with pytest.raises(RealtimeError) as caught:
        call(*args)
    return caught.value.code


def test_absent_fields_are_unset():
    parsed = parse_session({})
    assert parsed.fields.voice is UNSET
    assert parsed.turn_detection is UNSET
    assert parsed.input_format is None


def test_nested_spellings_win_over_flat_ones():
    audio = {
        "input": {"format": {"type": "audio/pcm", "rate": 24000}, "turn_detection": None},
        "output": {"voice": "in"},
    }
    parsed = parse_session({"audio": audio, "voice": "out", "turn_detection": {"type": "server_vad"}})
    assert parsed.input_format == AudioFormat(Encoding.PCM16, 24000)
    assert parsed.turn_detection is None
    assert parsed.fields.voice == "in"


def test_extra_body_overrides_policies():
    parsed = parse_session(
        {"overlap_short_ack_ms": 1, "extra_body": {"overlap_short_ack_ms": 2, "auto_response": True}}
    )
    assert (parsed.fields.overlap_short_ack_ms, parsed.fields.auto_response) == (2, True)


def test_infinity_is_a_token_limit():
    assert parse_session({"max_output_tokens": "inf"}).fields.max_unit_tokens == "inf"


@pytest.mark.parametrize(
    ("session", "code"),
    [
        ({"input_audio_format": "mp3"}, "unsupported_audio_format"),
        ({"output_audio_format": "pcm_f32le"}, "unsupported_audio_format"),
        ({"turn_detection": {"type": "semantic_vad"}}, "unsupported_turn_detection"),
        ({"turn_detection": {"type": "server_vad", "threshold": 0.15}}, "unsupported_turn_detection"),
        ({"turn_detection": {"type": "server_vad", "prefix_padding_ms": -1}}, "unsupported_turn_detection"),
        ({"extra_body": {"duplex_window_x": 1}}, "invalid_duplex_runtime_config"),
        ({"extra_body": {"initial_user_text": "x"}}, "invalid_duplex_runtime_config"),
        ({"tts_ref_audio_path": "x"}, "unsupported_ref_audio_path"),
        ({"extra_body": {"basic_window_high_tokens": 0}}, "invalid_sliding_window_config"),
        ({"extra_body": {"sliding_window_mode": "x"}}, "invalid_sliding_window_config"),
        ({"modalities": []}, "invalid_session_config"),
        ({"modalities": ["video"]}, "invalid_session_config"),
        ({"temperature": -1}, "invalid_session_config"),
        ({"idle_timeout_s": 0}, "invalid_session_config"),
        ({"sample_rate_hz": True}, "invalid_session_config"),
        ({"instructions": "x" * 40_000}, "invalid_session_config"),
        ({"audio": 3}, "invalid_session_config"),
    ],
)
def test_a_bad_setting_is_refused_by_its_code(session, code):
    assert refused(parse_session, session) == code


def test_formats_are_checked_before_private_keys():
    session = {"input_audio_format": "mp3", "extra_body": {"ref_audio_data": "x"}}
    assert refused(parse_session, session) == "unsupported_audio_format"


@pytest.mark.parametrize("rate", [True, 7999, 192_001, 16_000.5, 0, "16000", None])
def test_a_rate_is_a_whole_number_in_range(rate):
    assert refused(parse_rate, rate, "rate") == "bad_event"


def test_telephone_codecs_have_8_khz_unless_declared():
    assert parse_input_format("audio/pcmu", "format").input_rate_hz == 8000
    assert parse_input_format({"type": "g711_alaw", "rate": 16000}, "format").input_rate_hz == 16000
    assert parse_output_format("pcm16", "format").output_rate_hz == 24000


def test_server_vad_has_defaults():
    assert parse_session({"turn_detection": {"type": "server_vad"}}).turn_detection == ServerVad()


@pytest.mark.parametrize("key", ["instructions", "voice", "temperature", "tools", "max_output_tokens"])
def test_response_options_that_cannot_be_set_are_refused(key):
    assert refused(parse_response_options, {key: "x"}) == "unsupported_native_response_options"


def test_response_options_are_read():
    options = parse_response_options(
        {"modalities": ["text"], "output_audio_format": "g711_ulaw", "metadata": {"a": "b"}}
    )
    assert options.modalities == ("text",)
    assert options.output_format == AudioFormat(Encoding.ULAW)
    assert refused(parse_response_options, {"modalities": ["smell"]}) == "bad_event"


def test_items_are_read_part_by_part():
    item = parse_item({"content": [{"type": "input_text", "text": "a"}, {"type": "input_audio", "audio": "AA"}]})
    assert isinstance(item, MessageItem)
    assert (item.text, len(item.audio), item.role) == ("a", 1, "user")


@pytest.mark.parametrize("item", [{"role": "x"}, {"type": "x"}, {"content": 1}, {"content": ["a"]}, {"id": ""}])
def test_bad_items_are_refused(item):
    assert refused(parse_item, item) == "bad_event"


def test_nulls_among_frames_are_skipped():
    assert parse_video_frames([None, None], None) == ()
    assert refused(parse_video_frames, "x", None) == "invalid_video_frames"
    assert refused(parse_video_frames, ["!"], 1) == "invalid_video_frames"
    assert refused(parse_video_frames, None, True) == "invalid_video_frames"
