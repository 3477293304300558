import struct
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.audio.decode import (
    MAX_AUDIO_S,
    load_audio,
    load_reference_voice,
    prepare_clip,
    prepare_voice,
)
from antiphon.core.errors import MediaError

Tone = Callable[..., NDArray[np.float32]]
Encode = Callable[..., bytes]


def with_sizes(wav: bytes, riff: int, data: int) -> bytes:
    return wav[:4] + struct.pack("<I", riff) + wav[8:40] + struct.pack("<I", data) + wav[44:]


@pytest.mark.parametrize(
    ("form", "subtype", "tolerance"),
    [
        ("WAV", "PCM_16", 1e-4),
        ("WAV", "PCM_U8", 0.01),
        ("WAV", "PCM_24", 1e-6),
        ("WAV", "PCM_32", 1e-6),
        ("WAV", "FLOAT", 0.0),
        ("WAV", "DOUBLE", 0.0),
        ("WAV", "ULAW", 0.01),
        ("WAVEX", "PCM_16", 1e-4),
        ("W64", "PCM_16", 1e-4),
        ("AIFF", "PCM_16", 1e-4),
        ("FLAC", "PCM_16", 1e-4),
        ("MP3", None, 0.05),
    ],
)
def test_a_format_is_decoded_to_its_samples(
    tone: Tone, encode_audio: Encode, form: str, subtype: str | None, tolerance: float
) -> None:
    samples = load_audio(encode_audio(tone(), form=form, subtype=subtype))
    assert samples.dtype == np.float32
    assert samples.shape == (16_000,)
    assert np.abs(samples - tone()).max() <= tolerance


@pytest.mark.parametrize("subtype", ["OPUS", "VORBIS"])
def test_ogg_is_decoded_to_about_its_length(tone: Tone, encode_audio: Encode, subtype: str) -> None:
    samples = load_audio(encode_audio(tone(2.0), form="OGG", subtype=subtype))
    assert abs(len(samples) - 32_000) <= 320
    assert 0.15 < np.abs(samples[1000:30_000]).mean() < 0.23


@pytest.mark.parametrize("rate_hz", [8_000, 11_025, 44_100, 48_000, 96_000])
def test_rates_and_channels_are_brought_to_16_khz_mono(tone: Tone, encode_audio: Encode, rate_hz: int) -> None:
    six = np.tile(tone(rate_hz=rate_hz)[:, None], (1, 6))
    samples = load_audio(encode_audio(six, rate_hz))
    assert len(samples) == 16_000
    assert np.abs(samples - tone())[100:-100].max() < 0.01


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 10**9])
def test_wrong_sizes_in_a_wav_header_are_ignored(tone: Tone, encode_audio: Encode, size: int) -> None:
    assert len(load_audio(with_sizes(encode_audio(tone()), size, size))) == 16_000


def test_a_chunk_in_front_of_the_samples_is_skipped(tone: Tone, encode_audio: Encode) -> None:
    wav = encode_audio(tone())
    listed = b"LIST" + struct.pack("<I", 5) + b"abcde\0"
    assert len(load_audio(wav[:36] + listed + wav[36:])) == 16_000


def test_a_truncated_file_gives_what_is_present(tone: Tone, encode_audio: Encode) -> None:
    wav = encode_audio(tone())
    assert len(load_audio(wav[: 44 + 2 * 4000])) == 4000


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"not audio at all " * 50, "cannot be decoded"),
        (b"#EXTM3U\n#EXTINF:10,\nfile:///etc/hostname\n", "cannot be decoded"),
    ],
)
def test_what_is_not_audio_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(MediaError, match=reason):
        load_audio(content)


def test_unusable_samples_are_refused_with_the_reason(tone: Tone, encode_audio: Encode) -> None:
    wav = encode_audio(tone())
    for content, reason in (
        (wav[:44], "no samples"),
        (encode_audio(tone(0.05)), "0.050 s long; at least 0.1 s"),
        (encode_audio(np.full(16_000, np.nan, np.float32), subtype="FLOAT"), "NaN"),
        (encode_audio(np.full(16_000, 1e6, np.float32), subtype="FLOAT"), "floats must be in"),
        (encode_audio(np.zeros(16_000), rate_hz=1_000), "sample rate is 1000 Hz"),
    ):
        with pytest.raises(MediaError, match=reason):
            load_audio(content)


def test_silence_is_legal() -> None:
    assert len(prepare_clip(np.zeros(16_000, np.float32), 16_000, "clip")) == 16_000


def test_a_clip_over_the_limit_is_refused_while_decoding(encode_audio: Encode) -> None:
    flac = encode_audio(np.zeros(16_000 * 600, np.int16), form="FLAC")
    with pytest.raises(MediaError, match=r"longer than 300 s.*context"):
        load_audio(flac)


def test_the_longest_clip_is_accepted() -> None:
    clip = np.zeros(round(MAX_AUDIO_S * 16_000), np.float32)
    assert len(prepare_clip(clip, 16_000, "clip")) == len(clip)


def test_arrays_are_scaled_by_their_type_and_mixed_down() -> None:
    stereo = np.stack((np.full(2_000, 16_384, np.int16), np.zeros(2_000, np.int16)))
    assert prepare_clip(stereo, 16_000, "clip") == pytest.approx(np.full(2_000, 0.25))
    for wrong in (np.zeros(2_000, np.uint8), np.zeros((2, 2, 2), np.float32), np.zeros((2_000, 2), np.float32)):
        with pytest.raises(MediaError, match="clip"):
            prepare_clip(wrong, 16_000, "clip")


def test_a_reference_voice_keeps_its_rate_and_channels(tone: Tone, encode_audio: Encode) -> None:
    stereo = np.stack((tone(rate_hz=44_100), 0.5 * tone(rate_hz=44_100)), axis=1)
    samples, rate_hz = load_reference_voice(encode_audio(stereo, 44_100, subtype="FLOAT"))
    assert rate_hz == 44_100
    assert np.array_equal(samples, stereo.T)


@pytest.mark.parametrize("duration_s", [0.3, 31.0])
def test_a_reference_voice_must_have_a_sensible_length(tone: Tone, duration_s: float) -> None:
    with pytest.raises(MediaError, match=r"0.5 to 30 s"):
        prepare_voice(tone(duration_s), 16_000, "voice")
