"""A clip as pairs of one frame and one second of sound in time order, the form that MiniCPM-o is fed videos in."""

import base64
import io
import wave
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from antiphon.audio.decode import SAMPLE_RATE_HZ
from antiphon.audio.video import MAX_VIDEO_S, load_video, once_per_second
from antiphon.audio.wav import to_pcm16
from antiphon.bench.bench_request import url_part
from antiphon.bench.datasets.made_media import data_url

MAX_PAIRS = 64
_JPEG_QUALITY = 85
_MIN_SEGMENT_SAMPLES = 1600  # the audio encoder needs 0.1 s


def interleaved_parts(
    path: Path, *, max_pairs: int = MAX_PAIRS, max_s: float = MAX_VIDEO_S
) -> Sequence[Mapping[str, object]]:
    """Message parts of *path*: at most *max_pairs*, evenly chosen from a longer clip of at most *max_s*.

    Raises:
        MediaError: the clip is missing or cannot be decoded.
    """
    kept: list[int] = []

    def times(duration_s: float) -> Sequence[float]:
        kept.extend(chosen_pairs(len(once_per_second(duration_s)), max_pairs))
        return kept

    video = load_video(path, times=times, max_s=max_s)
    parts: list[Mapping[str, object]] = []
    for place, picture in zip(kept, video.frames, strict=True):
        frame = io.BytesIO()
        picture.convert("RGB").save(frame, format="JPEG", quality=_JPEG_QUALITY)
        parts.append(url_part("image", data_url("image/jpeg", frame.getvalue())))
        if video.audio is not None:
            sound = base64.b64encode(_segment_wav(video.audio, place)).decode()
            parts.append({"type": "input_audio", "input_audio": {"data": sound, "format": "wav"}})
    return parts


def chosen_pairs(count: int, max_pairs: int = MAX_PAIRS) -> Sequence[int]:
    """Which of *count* seconds are kept: all of them, or *max_pairs* from the first to the last."""
    if count <= max_pairs:
        return range(count)
    return [round(place * (count - 1) / max(1, max_pairs - 1)) for place in range(max_pairs)]


def _segment_wav(samples: NDArray[np.float32], second: int) -> bytes:
    segment = samples[second * SAMPLE_RATE_HZ : (second + 1) * SAMPLE_RATE_HZ]
    segment = np.pad(segment, (0, max(0, _MIN_SEGMENT_SAMPLES - len(segment))))
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(SAMPLE_RATE_HZ)
        writer.writeframes(to_pcm16(segment).tobytes())
    return file.getvalue()
