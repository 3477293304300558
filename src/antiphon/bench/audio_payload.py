"""How much sound an audio payload holds: WAV by its header, other containers by what the server says, else raw PCM."""

import io
import struct
from dataclasses import dataclass

import soundfile

PCM_RATE_HZ = 24_000  # of a payload without a header: the rate of the model's speech and of OpenAI's pcm16
_PCM_SAMPLE_BYTES = 2
_COMPRESSED_MARKS = (b"fLaC", b"OggS", b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2")


@dataclass(frozen=True)
class Sound:
    """Size and format of one payload. `num_frames` counts samples of one channel."""

    num_frames: int
    sample_rate_hz: int
    num_channels: int
    frame_bytes: int

    @property
    def layout(self) -> tuple[int, int, int]:
        """What must agree for two payloads to be played one after the other."""
        return (self.sample_rate_hz, self.num_channels, self.frame_bytes)


def measure_sound(payload: bytes, *, pcm_rate_hz: int = PCM_RATE_HZ) -> Sound:
    """Size and format of *payload*: a whole WAV, FLAC, Ogg or MP3 file, or 16-bit mono PCM.

    Raises:
        ValueError: a header that cannot be read.
    """
    if payload[:4] == b"RIFF":
        return _measure_wav(payload)
    if payload.startswith(_COMPRESSED_MARKS):
        try:
            facts = soundfile.info(io.BytesIO(payload))
        except soundfile.LibsndfileError as error:
            raise ValueError(f"audio of {len(payload)} bytes cannot be decoded ({error})") from None
        return Sound(facts.frames, facts.samplerate, facts.channels, 0)
    return Sound(len(payload) // _PCM_SAMPLE_BYTES, pcm_rate_hz, 1, _PCM_SAMPLE_BYTES)


def wav_header_bytes(payload: bytes) -> int | None:
    """Where the samples begin in a WAV of which *payload* is the front; None if the header is not complete yet."""
    position = 12
    while position + 8 <= len(payload):
        name, size = payload[position : position + 4], int.from_bytes(payload[position + 4 : position + 8], "little")
        if name == b"data":
            return position + 8
        position += 8 + size + (size & 1)
    return None


def _measure_wav(payload: bytes) -> Sound:
    begin = wav_header_bytes(payload)
    place = payload.find(b"fmt ", 12, begin)
    if begin is None or place < 0 or place + 24 > len(payload) or payload[8:12] != b"WAVE":
        raise ValueError(f"audio of {len(payload)} bytes has a broken WAV header")
    _, channels, rate_hz, _, frame_bytes, _ = struct.unpack_from("<HHIIHH", payload, place + 8)
    if not (channels and rate_hz and frame_bytes):
        raise ValueError("audio has a WAV header with zeros")
    # Streaming writers leave the size open (0 or all ones): what is there counts.
    stated = int.from_bytes(payload[begin - 4 : begin], "little")
    present = len(payload) - begin
    return Sound((min(stated, present) if stated else present) // frame_bytes, rate_hz, channels, frame_bytes)
