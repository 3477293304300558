"""Files into what the wire takes, and sound back into files."""

import wave
from base64 import b64encode
from pathlib import Path

import numpy as np

from antiphon.audio.decode import SAMPLE_RATE_HZ, load_audio
from antiphon.audio.stream_resampler import StreamResampler
from antiphon.audio.wav import to_pcm16
from antiphon.core.errors import MediaError

MAX_INPUT_S = 4 * 3600.0


def audio_data_url(data: bytes | Path, *, mime: str = "audio/wav") -> str:
    """A sound file as a data URL."""
    return _data_url(data, mime)


def image_data_url(data: bytes | Path, *, mime: str = "image/jpeg") -> str:
    """A picture as a data URL."""
    return _data_url(data, mime)


def reference_audio_data_url(path: str | None) -> str | None:
    """The recording of a reference voice as a data URL; None stays None."""
    return None if path is None else audio_data_url(Path(path))


def read_pcm16_wav(path: Path, *, sample_rate_hz: int = SAMPLE_RATE_HZ) -> bytes:
    """Any sound file as mono 16-bit samples, little endian.

    Raises:
        MediaError: the file cannot be read, or holds no sound.
    """
    samples = load_audio(path, max_s=MAX_INPUT_S)
    resampler = StreamResampler(SAMPLE_RATE_HZ, sample_rate_hz)
    return to_pcm16(np.concatenate([resampler.push(samples), resampler.flush()])).tobytes()


def write_pcm16_wav(path: Path, pcm16: bytes, *, sample_rate_hz: int) -> None:
    """Write mono 16-bit samples, little endian, as a WAV file."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate_hz)
        file.writeframes(pcm16)


def _data_url(data: bytes | Path, mime: str) -> str:
    try:
        content = data.read_bytes() if isinstance(data, Path) else data
    except OSError as error:
        raise MediaError(f"{error.filename}: cannot be read ({error.strerror})") from None
    return f"data:{mime};base64,{b64encode(content).decode('ascii')}"
