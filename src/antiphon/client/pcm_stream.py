"""Cuts sound into appends: how long each is, when a microphone would have it, which picture rides on it."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from antiphon.client.config import AudioFormat
from antiphon.core.errors import MediaError
from antiphon.wire.realtime.json_frame import JsonObject

UNIT_MS = 1000


@dataclass(frozen=True)
class Chunk:
    """`due_s`: when its last sample is there, in seconds from the first sample of the stream."""

    pcm: bytes
    due_s: float
    frames: tuple[str, ...] = ()


class InputCursor:
    """Makes appends, and keeps count of the sound that went before."""

    def __init__(self, form: AudioFormat) -> None:
        self._format = form
        self._num_bytes = 0

    def append(self, pcm: bytes) -> JsonObject:
        """Raises MediaError if *pcm* does not consist of whole samples."""
        if len(pcm) % self._format.bytes_per_sample:
            raise MediaError(f"{len(pcm)} bytes are no whole samples of {self._format.encoding}")
        self._num_bytes += len(pcm)
        return {
            "type": "input_audio_buffer.append",
            "audio": b64encode(pcm).decode("ascii"),
            "format": self._format.encoding,
            "sample_rate_hz": self._format.sample_rate_hz,
            "duration_ms": self._format.duration_ms(len(pcm)),
            "audio_end_ms": self._format.duration_ms(self._num_bytes),
        }


def plan_chunks(
    pcm: bytes,
    form: AudioFormat,
    chunk_ms: float,
    frames: Sequence[str] = (),
    composites: Sequence[str | None] = (),
) -> Iterator[Chunk]:
    """Chunks of *chunk_ms*, the last one shorter. The picture of second k rides on the chunk that completes it."""
    step = max(form.bytes_per_sample, form.byte_count(chunk_ms))
    num_sent = 0
    for begin in range(0, len(pcm), step):
        piece = pcm[begin : begin + step]
        end_ms = form.duration_ms(begin + len(piece))
        riding: tuple[str, ...] = ()
        if frames and end_ms >= (num_sent + 1) * UNIT_MS:
            riding = (frames[min(num_sent, len(frames) - 1)],)
            composite = composites[num_sent] if num_sent < len(composites) else None
            riding += () if composite is None else (composite,)
            num_sent += 1
        yield Chunk(piece, end_ms / 1000, riding)


def duplex_unit_boundary_ms(unit_index: int) -> int:
    """Where the unit of that index (from 0) ends."""
    return (unit_index + 1) * UNIT_MS


def has_residual_model_unit(pcm16: bytes, *, chunk_period_ms: int) -> bool:
    """Whether 16 kHz *pcm16* ends inside a unit, which a commit then fills up."""
    return len(pcm16) % (2 * 16 * chunk_period_ms) != 0
