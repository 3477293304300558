import io

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from antiphon.audio.decode import load_audio
from antiphon.audio.formats import ALIASES, FORMATS, encode_file, open_stream, wav_header

RATE_HZ = 24_000
FILES = [name for name in FORMATS if name != "pcm"]


@pytest.fixture
def samples() -> NDArray[np.float32]:
    return (0.3 * np.sin(np.arange(2 * RATE_HZ) / 9)).astype(np.float32)


@pytest.mark.parametrize("name", FILES)
def test_a_file_has_all_samples(name: str, samples: NDArray[np.float32]) -> None:
    decoded, rate_hz = soundfile.read(io.BytesIO(encode_file(FORMATS[name], samples, RATE_HZ)))
    assert (rate_hz, decoded.ndim, len(decoded)) == (RATE_HZ, 1, len(samples))
    assert np.abs(decoded).max() == pytest.approx(0.3, abs=0.05)


@pytest.mark.parametrize("name", FILES)
def test_a_stream_is_one_file_that_comes_in_pieces(name: str, samples: NDArray[np.float32]) -> None:
    encoder = open_stream(FORMATS[name], RATE_HZ)
    pieces = [encoder.push(part) for part in np.array_split(samples, 8)]
    assert sum(map(bool, pieces)) >= 6, "most of it must not wait for the end"
    content = b"".join([*pieces, encoder.push(samples[:0]), encoder.finish()])
    assert len(load_audio(content)) / 16_000 == pytest.approx(2.0, abs=0.1)


def test_raw_samples_are_little_endian_and_clipped() -> None:
    values = np.array([0.0, 0.5, 1.0, -2.0], np.float32)
    assert encode_file(FORMATS["pcm"], values, RATE_HZ) == np.array([0, 16_383, 32_767, -32_767], "<i2").tobytes()
    assert ALIASES == {"pcm16": "pcm"}


def test_c67_a_stream_of_wav_has_one_header_of_unknown_length() -> None:
    encoder = open_stream(FORMATS["wav"], RATE_HZ)
    content = encoder.push(np.zeros(0, np.float32)) + encoder.push(np.ones(3, np.float32)) + encoder.finish()
    assert content.count(b"RIFF") == 1
    assert content[:44] == wav_header(None, RATE_HZ)
    assert content[4:8] == content[40:44] == b"\xff\xff\xff\xff"
    assert open_stream(FORMATS["wav"], RATE_HZ).finish() == wav_header(None, RATE_HZ)
