"""A video as pictures: one of every whole second, or evenly chosen ones of a longer video."""

import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from antiphon.audio.video import load_video
from antiphon.bench.bench_request import url_part

MAX_FRAMES = 96
MAX_S = 4 * 3600.0  # Video-MME's long videos last an hour
_GRID_S = 0.1
_JPEG_QUALITY = 85


def frame_parts(path: Path, *, max_frames: int = MAX_FRAMES) -> Sequence[Mapping[str, object]]:
    """Message parts of *path*, in time order. Raises MediaError if it cannot be decoded."""
    video = load_video(
        path, times=lambda duration_s: frame_times_s(duration_s, max_frames), with_audio=False, max_s=MAX_S
    )
    parts = []
    for frame in video.frames:
        file = io.BytesIO()
        frame.convert("RGB").save(file, format="JPEG", quality=_JPEG_QUALITY)
        address = f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"
        parts.append(url_part("image", address))
    return parts


def frame_times_s(duration_s: float, max_frames: int) -> list[float]:
    """Every whole second of a video of at most *max_frames* seconds, else evenly over a grid of 0.1 s."""
    if duration_s <= max_frames:
        return [float(second) for second in range(max(1, int(duration_s)))]
    last = int(duration_s / _GRID_S) - 1
    places = [round(place * last / (max_frames - 1)) for place in range(max_frames)] if max_frames > 1 else [0]
    return [place * _GRID_S for place in places]
