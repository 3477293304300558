"""Decodes video inputs: the frames shown at given times, and the sound on the same time line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import BinaryIO

import av
import numpy as np
import soxr
from numpy.typing import NDArray
from PIL import Image

from antiphon.audio.container import VIDEO_FORMATS, decoded_video, open_container
from antiphon.audio.decode import SAMPLE_RATE_HZ, decode_pieces
from antiphon.audio.source import MediaSource, open_source, source_name
from antiphon.core.errors import MediaError

MAX_VIDEO_S = 300.0
MAX_VIDEO_PACKETS = 40_000  # 300 s at 120 frames/s, with room to spare; counted before anything is decoded
MAX_SAMPLED_FRAMES = 128
MAX_FRAME_PIXELS = 36_000_000  # 8K
KEPT_FRAME_PIXELS = 1920 * 1080  # larger frames are scaled down when kept: the model sees 448² or a few tiles of it


@dataclass(frozen=True)
class Video:
    """Sampled frames and the sound of one clip. `frames[i]` was on screen at `times_s[i]` from its first frame."""

    frames: tuple[Image.Image, ...]
    times_s: tuple[float, ...]
    audio: NDArray[np.float32] | None  # [N] mono 16 kHz, sample 0 at the first frame; None without a sound stream
    duration_s: float


def once_per_second(duration_s: float) -> Sequence[float]:
    """0, 1, 2, … seconds, for every second that has begun."""
    return range(max(1, ceil(duration_s - 1e-3)))


def load_video(
    source: MediaSource,
    *,
    times: Callable[[float], Sequence[float]] = once_per_second,
    max_frames: int = MAX_SAMPLED_FRAMES,
    with_audio: bool = True,
    max_s: float = MAX_VIDEO_S,
) -> Video:
    """Decode *source* (MP4, MOV, MKV, WebM, AVI, MPEG, FLV).

    Args:
        times: from the clip's duration in seconds, which moments to keep, ascending; known before decoding starts.
        max_frames: more moments than this are refused.
        with_audio: decode the sound too.
        max_s: longer clips are refused; more than what requests may bring suits files of one's own.

    Raises:
        MediaError: not readable, no frames, too long, too large.
    """
    name = source_name(source, "video")
    with open_source(source, "video") as file:
        start_s, duration_s = _measure(file, name, max_packets=round(MAX_VIDEO_PACKETS * max(1.0, max_s / MAX_VIDEO_S)))
        if duration_s > max_s:
            raise MediaError(f"{name}: is {duration_s:.1f} s long; at most {max_s:g} s are accepted: cut it")
        wanted_s = tuple(float(time_s) for time_s in times(duration_s))
        if len(wanted_s) > max_frames:
            raise MediaError(f"{name}: would give {len(wanted_s)} frames; at most {max_frames} are accepted: cut it")
        frames = _frames_at(file, name, start_s, wanted_s)
        audio = _sound(file, name, start_s, max_s) if with_audio else None
    return Video(frames, wanted_s[: len(frames)], audio, duration_s)


def _measure(file: BinaryIO, name: str, *, max_packets: int) -> tuple[float, float]:
    """Time of the first frame and duration, from the packets alone: headers may lack or invent both."""
    with open_container(file, name, VIDEO_FORMATS) as container:
        if not container.streams.video:
            raise MediaError(f"{name}: holds no video")
        stream = container.streams.video[0]
        if stream.width * stream.height > MAX_FRAME_PIXELS:
            raise MediaError(f"{name}: frames of {stream.width}×{stream.height} pixels are too large: scale it down")
        if stream.time_base is None:
            raise MediaError(f"{name}: has no time base")
        starts: list[float] = []
        end_s, last_duration_s = 0.0, 0.0
        frame_s = float(1 / stream.average_rate) if stream.average_rate else 0.0
        for packet in container.demux(stream):
            if packet.size == 0 or packet.pts is None:
                continue
            if len(starts) == max_packets:
                raise MediaError(f"{name}: has more than {max_packets} frames: cut it")
            last_duration_s = float(packet.duration * stream.time_base) if packet.duration else frame_s
            starts.append(float(packet.pts * stream.time_base))
            end_s = max(end_s, starts[-1] + last_duration_s) if len(starts) > 1 else starts[-1] + last_duration_s
    if not starts:
        raise MediaError(f"{name}: holds no frames")
    return min(starts), end_s - min(starts)


def _frames_at(file: BinaryIO, name: str, start_s: float, wanted_s: Sequence[float]) -> tuple[Image.Image, ...]:
    """For each wanted time the frame on screen then: the last one that began by that time."""
    kept: list[Image.Image] = []
    file.seek(0)
    with open_container(file, name, VIDEO_FORMATS) as container:
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        shown: av.VideoFrame | None = None
        for frame in decoded_video(container, stream):
            begins_s = (frame.time if frame.time is not None else start_s) - start_s
            while shown is not None and len(kept) < len(wanted_s) and begins_s > wanted_s[len(kept)] + 1e-3:
                kept.append(_picture(shown))
            if len(kept) == len(wanted_s):
                return tuple(kept)
            shown = frame
        if shown is None:
            raise MediaError(f"{name}: holds no frames that can be decoded")
        kept.extend(_picture(shown) for _ in range(len(wanted_s) - len(kept)))
    return tuple(kept)


def _picture(frame: av.VideoFrame) -> Image.Image:
    picture: Image.Image = frame.to_image()  # type: ignore[no-untyped-call]
    if frame.rotation:  # phones store portrait clips lying on their side
        picture = picture.rotate(frame.rotation, expand=True)
    excess = picture.width * picture.height / KEPT_FRAME_PIXELS
    if excess > 1:
        size = (max(1, round(picture.width / excess**0.5)), max(1, round(picture.height / excess**0.5)))
        picture = picture.resize(size, Image.Resampling.BICUBIC)
    return picture


def _sound(file: BinaryIO, name: str, start_s: float, max_s: float) -> NDArray[np.float32] | None:
    """The first sound stream at 16 kHz, moved so that sample 0 is the first frame's moment."""
    file.seek(0)
    with open_container(file, name, VIDEO_FORMATS) as container:
        if not container.streams.audio:
            return None
        stream = container.streams.audio[0]
        rate_hz, pieces = decode_pieces(container, name, max_s)
        mono = [piece.mean(axis=0) for piece in pieces]
        stream_start_s = float(stream.start_time * stream.time_base) if stream.start_time and stream.time_base else 0.0
    if not mono:
        return None
    samples = np.nan_to_num(np.concatenate(mono))
    lead = round((stream_start_s - start_s) * rate_hz)
    samples = samples[-lead:] if lead < 0 else np.pad(samples, (min(lead, round(max_s * rate_hz)), 0))
    if rate_hz != SAMPLE_RATE_HZ and len(samples):
        samples = soxr.resample(samples, rate_hz, SAMPLE_RATE_HZ, quality="HQ")
    return np.ascontiguousarray(samples, dtype=np.float32)
