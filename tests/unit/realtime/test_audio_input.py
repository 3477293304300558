import numpy as np
import pytest
from realtime_driving import pcm16

from antiphon.audio.g711 import ALAW_TABLE, ULAW_TABLE, decode_alaw, decode_ulaw, encode_alaw, encode_ulaw
from antiphon.realtime.audio_input import InputResampler, append_format, decode_samples
from antiphon.realtime.script import tone
from antiphon.realtime.speech_output import SpeechEncoder
from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.formats import AudioFormat, Encoding

TELEPHONE = AudioFormat(Encoding.ULAW, 8000)


def test_every_telephone_code_survives_the_round_trip():
    codes = bytes(range(256))
    assert encode_alaw(decode_alaw(codes)) == codes
    np.testing.assert_array_equal(decode_ulaw(encode_ulaw(decode_ulaw(codes))), decode_ulaw(codes))
    assert (ULAW_TABLE.max(), ULAW_TABLE.min()) == (32124, -32124)
    assert (ALAW_TABLE.max(), ALAW_TABLE.min()) == (32256, -32256)


@pytest.mark.parametrize("rate", [8000, 11_025, 16_000, 24_000, 44_100, 48_000, 192_000])
def test_any_rate_becomes_16_khz_within_a_sample_whatever_the_pieces(rate):
    resampler = InputResampler()
    samples = tone(700, rate)
    form = AudioFormat(Encoding.PCM16, rate)
    pieces = [resampler.push(piece, form) for piece in np.array_split(samples, 7)]
    length = sum(map(len, pieces)) + len(resampler.finish())
    assert abs(length - len(samples) * 16_000 / rate) <= 1


def test_a_float_stream_keeps_its_rate_inside_a_turn():
    resampler = InputResampler()
    resampler.push(tone(10, 16_000), AudioFormat(Encoding.FLOAT32, 16_000))
    with pytest.raises(RealtimeError) as caught:
        resampler.push(tone(10, 24_000), AudioFormat(Encoding.FLOAT32, 24_000))
    assert caught.value.code == "bad_event"
    resampler.finish()
    resampler.push(tone(10, 24_000), AudioFormat(Encoding.FLOAT32, 24_000))


def test_another_format_joins_without_losing_samples():
    resampler = InputResampler()
    first = resampler.push(tone(100, 24_000), AudioFormat(Encoding.PCM16, 24_000))
    second = resampler.push(tone(100, 16_000), AudioFormat(Encoding.PCM16, 16_000))
    assert abs(len(first) + len(second) - 3200) <= 1


def test_an_undeclared_telephone_append_has_8_khz_beside_a_16_khz_session():
    session = AudioFormat(Encoding.PCM16, 16_000)
    assert append_format(session, "g711_ulaw", None) == TELEPHONE
    assert append_format(session, "pcm_f32le", None) == AudioFormat(Encoding.FLOAT32, 16_000)
    assert append_format(session, None, 48_000) == AudioFormat(Encoding.PCM16, 48_000)


def test_an_append_without_a_format_has_the_sessions():
    assert append_format(AudioFormat(Encoding.ULAW, None), None, None) == TELEPHONE


def test_pcm16_is_scaled_by_32768():
    samples = decode_samples(pcm16(np.array([1.0, -1.0], np.float32)), Encoding.PCM16)
    np.testing.assert_allclose(samples, [32767 / 32768, -32767 / 32768])


@pytest.mark.parametrize("encoding", [Encoding.PCM16, Encoding.FLOAT32])
def test_half_samples_are_refused(encoding):
    with pytest.raises(RealtimeError, match="bytes"):
        decode_samples("AAAA", encoding)


@pytest.mark.parametrize("encoding", [Encoding.ULAW, Encoding.ALAW])
def test_telephone_speech_keeps_its_length_over_deltas(encoding):
    encoder = SpeechEncoder(AudioFormat(encoding))
    sizes = [len(encoder.encode(tone(300))), len(encoder.encode(np.zeros(0, np.float32), last=True))]
    assert abs(sum(sizes) * 3 / 4 - 2400) <= 4


def test_a_wav_delta_is_a_whole_file():
    assert SpeechEncoder(AudioFormat(Encoding.WAV)).encode(tone(20)).startswith("UklGR")
