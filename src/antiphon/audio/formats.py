"""Speech as bytes of a file or of a stream: wav, pcm, flac, mp3, opus."""

import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import av
import numpy as np
from numpy.typing import NDArray

from antiphon.audio.wav import to_pcm16

_OGG_PAGE_US = "100000"  # the default of one second would be heard as delay
UNKNOWN_SIZE = 0xFFFF_FFFF  # a WAV header written before the length is known


@dataclass(frozen=True)
class SpeechFormat:
    """A format of the wire. `container` and `codec` are FFmpeg's names; None: written here."""

    name: str
    media_type: str
    container: str | None = None
    codec: str | None = None
    sample_format: str = "s16"


_FORMATS = (
    SpeechFormat("wav", "audio/wav"),
    SpeechFormat("pcm", "audio/pcm"),
    SpeechFormat("flac", "audio/flac", "flac", "flac"),
    SpeechFormat("mp3", "audio/mpeg", "mp3", "libmp3lame", "s16p"),
    SpeechFormat("opus", "audio/ogg", "ogg", "libopus"),
)
FORMATS = {entry.name: entry for entry in _FORMATS}
ALIASES = {"pcm16": "pcm"}


class StreamEncoder(Protocol):
    """Makes one file of speech that comes in pieces."""

    def push(self, samples: NDArray[np.float32]) -> bytes:
        """The bytes that *samples* [N] make available; perhaps none."""
        ...

    def finish(self) -> bytes:
        """The rest of the file."""
        ...


def open_stream(form: SpeechFormat, sample_rate_hz: int) -> StreamEncoder:
    """Start a file of unknown length."""
    if form.container is None:
        return _PlainEncoder(b"" if form.name == "pcm" else wav_header(None, sample_rate_hz))
    return _ContainerEncoder(form, sample_rate_hz, _Pipe())


def encode_file(form: SpeechFormat, samples: NDArray[np.float32], sample_rate_hz: int) -> bytes:
    """A complete file of *samples* [N], float32 mono in [−1, 1]."""
    if form.container is None:
        body = to_pcm16(samples).tobytes()
        return body if form.name == "pcm" else wav_header(len(body), sample_rate_hz) + body
    file = io.BytesIO()  # FFmpeg goes back and writes the length into the header
    encoder = _ContainerEncoder(form, sample_rate_hz, file)
    encoder.push(samples)
    encoder.finish()
    return file.getvalue()


def wav_header(num_bytes: int | None, sample_rate_hz: int) -> bytes:
    """The 44 bytes in front of mono 16-bit samples; None: their number is not known."""
    body = UNKNOWN_SIZE if num_bytes is None else num_bytes
    riff = UNKNOWN_SIZE if num_bytes is None else num_bytes + 36
    pieces: Sequence[bytes] = (
        struct.pack("<4sI4s", b"RIFF", riff, b"WAVE"),
        struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, sample_rate_hz, sample_rate_hz * 2, 2, 16),
        struct.pack("<4sI", b"data", body),
    )
    return b"".join(pieces)


class _PlainEncoder:
    def __init__(self, header: bytes) -> None:
        self._header = header

    def push(self, samples: NDArray[np.float32]) -> bytes:
        if not len(samples):
            return b""
        header, self._header = self._header, b""
        return header + to_pcm16(samples).tobytes()

    def finish(self) -> bytes:
        header, self._header = self._header, b""
        return header


class _Pipe(io.RawIOBase):
    """A file that can only be appended to, and is read from the front."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        piece = bytes(memoryview(data))  # type: ignore[arg-type]  # whatever FFmpeg hands over is a buffer
        self._waiting += piece
        return len(piece)

    def take(self) -> bytes:
        piece = bytes(self._waiting)
        self._waiting.clear()
        return piece


class _ContainerEncoder:
    def __init__(self, form: SpeechFormat, sample_rate_hz: int, file: _Pipe | io.BytesIO) -> None:
        assert form.container is not None
        assert form.codec is not None
        self._file = file
        self._rate_hz = sample_rate_hz
        self._num_samples = 0
        options = {"page_duration": _OGG_PAGE_US} if form.container == "ogg" else {}
        self._output = av.open(file, mode="w", format=form.container, options=options)
        self._sample_format = form.sample_format
        stream = self._output.add_stream(form.codec, rate=sample_rate_hz, layout="mono", format=form.sample_format)
        assert isinstance(stream, av.AudioStream)
        self._stream = stream

    def push(self, samples: NDArray[np.float32]) -> bytes:
        if len(samples):
            frame = av.AudioFrame.from_ndarray(to_pcm16(samples)[None], format=self._sample_format, layout="mono")
            frame.sample_rate = self._rate_hz
            frame.pts = self._num_samples
            self._num_samples += len(samples)
            self._output.mux(self._stream.encode(frame))
        return self._take()

    def finish(self) -> bytes:
        self._output.mux(self._stream.encode(None))
        self._output.close()
        return self._take()

    def _take(self) -> bytes:
        return self._file.take() if isinstance(self._file, _Pipe) else b""
