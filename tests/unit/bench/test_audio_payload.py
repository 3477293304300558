"""Sizes of audio payloads."""

import io
import struct
import wave

import numpy as np
import pytest
import soundfile

from antiphon.bench.audio_payload import Sound, measure_sound, wav_header_bytes


def wav(num_frames: int, rate_hz: int = 24_000, channels: int = 1) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(channels)
        writer.setsampwidth(2)
        writer.setframerate(rate_hz)
        writer.writeframes(bytes(2 * channels * num_frames))
    return file.getvalue()


def test_a_wav_says_its_own_rate_and_channels() -> None:
    assert measure_sound(wav(480, 16_000, 2)) == Sound(480, 16_000, 2, 4)


def test_bytes_without_a_header_are_sixteen_bit_mono() -> None:
    assert measure_sound(bytes(4801), pcm_rate_hz=16_000) == Sound(2400, 16_000, 1, 2)


@pytest.mark.parametrize("stated", [0, 0xFFFFFFFF])
def test_a_wav_of_open_length_counts_what_is_there(stated: int) -> None:
    content = bytearray(wav(100))
    content[40:44] = struct.pack("<I", stated)
    assert measure_sound(bytes(content)).num_frames == 100


def test_chunks_before_the_samples_are_skipped() -> None:
    content = wav(10)
    listed = content[:36] + b"LIST" + struct.pack("<I", 3) + b"abc\0" + content[36:]
    assert wav_header_bytes(listed) == 44 + 12
    assert measure_sound(listed).num_frames == 10


def test_a_compressed_file_is_decoded_for_its_length() -> None:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(2400, np.float32), 24_000, format="FLAC")
    assert measure_sound(file.getvalue()).num_frames == 2400


@pytest.mark.parametrize("content", [b"RIFF", b"RIFF0000WAVEfmt ", b"fLaCxxxx", wav(1)[:22] + bytes(22)])
def test_a_broken_header_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="audio"):
        measure_sound(content)
