"""Opens audio and video files with PyAV, restricted to plain media containers, and turns decoded audio into arrays."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import av
import av.container
import av.error
import numpy as np
from numpy.typing import NDArray

from antiphon.core.errors import MediaError

# Demuxers a prompt may use. Playlists and subtitles are not among them: those can name further files and hosts.
AUDIO_FORMATS = "wav,w64,aiff,au,caf,flac,ogg,mp3,aac,mov,mp4,m4a,matroska,webm,amr"
VIDEO_FORMATS = "mov,mp4,m4a,matroska,webm,avi,mpegts,mpeg,ogg,flv"

# Full scale of FFmpeg's integer sample formats; floating ones are in [−1, 1] already.
_FULL_SCALE = {"u8": 128.0, "s16": 32768.0, "s32": 2147483648.0, "flt": 1.0, "dbl": 1.0}


@contextmanager
def open_container(file: BinaryIO, name: str, formats: str) -> Iterator[av.container.InputContainer]:
    """Open *file* for demuxing; every FFmpeg error inside becomes a MediaError about *name*."""
    try:
        with av.open(file, mode="r", options={"format_whitelist": formats}, metadata_errors="ignore") as container:
            yield container
    except av.error.FFmpegError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise MediaError(f"{name}: cannot be decoded ({reason})") from None


def decoded_audio(container: av.container.InputContainer, stream: av.AudioStream) -> Iterator[av.AudioFrame]:
    """The frames of *stream*; a damaged packet is skipped, as players do, and so is what a truncated file lacks."""
    for packet in container.demux(stream):
        try:
            frames = packet.decode()
        except av.error.InvalidDataError:
            continue
        yield from frames


def decoded_video(container: av.container.InputContainer, stream: av.VideoStream) -> Iterator[av.VideoFrame]:
    """The frames of *stream* in order of display; a damaged packet is skipped."""
    for packet in container.demux(stream):
        try:
            frames = packet.decode()
        except av.error.InvalidDataError:
            continue
        yield from frames


def frame_samples(frame: av.AudioFrame) -> NDArray[np.float32]:
    """Samples of one decoded frame, float32 [channels, N] in [−1, 1]."""
    sample_format = frame.format.name.removesuffix("p")
    scale = _FULL_SCALE.get(sample_format)
    if scale is None:
        raise MediaError(f"audio sample format {frame.format.name!r} is not supported")
    raw = frame.to_ndarray()
    if frame.format.is_packed:
        raw = raw.reshape(-1, frame.layout.nb_channels).T
    samples = raw.astype(np.float64) if sample_format == "s32" else raw.astype(np.float32)
    if sample_format == "u8":
        samples = samples - 128.0
    return (samples / scale).astype(np.float32)
