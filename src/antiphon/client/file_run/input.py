"""What a file gives a session: sound at 16 kHz, and for a clip one picture for each second."""

import io
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from PIL import Image

from antiphon.audio.video import MAX_VIDEO_S, load_video
from antiphon.audio.wav import to_pcm16
from antiphon.client.media import read_pcm16_wav
from antiphon.core.errors import MediaError

VIDEO_ENDINGS = (".mp4", ".mov", ".m4v", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".flv")
_FRAME_QUALITY, _STACK_QUALITY = 85, 95
_GAP_PIXELS = 6
MAX_STACKED = 8


@dataclass(frozen=True, kw_only=True)
class SessionInput:
    """PCM16 at 16 kHz, and JPEG pictures in base64: `frames[k]` and perhaps `composites[k]` belong to second k."""

    pcm: bytes
    frames: Sequence[str] = ()
    composites: Sequence[str] = ()

    @property
    def duration_s(self) -> float:
        return len(self.pcm) / 32_000


def read_input(path: Path, *, frame_max_side: int = 640, num_stacked: int = 1) -> SessionInput:
    """Read a sound file, or a clip with sound.

    Args:
        num_stacked: pictures of a second; more than one add a composite of all of them.

    Raises:
        MediaError: not readable, or a clip without sound: the model hears before it sees.
    """
    if path.suffix.lower() not in VIDEO_ENDINGS:
        return SessionInput(pcm=read_pcm16_wav(path))

    def moments(duration_s: float) -> list[float]:
        seconds = range(max(1, ceil(duration_s - 1e-3)))
        return [second + part / num_stacked for second in seconds for part in range(num_stacked)]

    video = load_video(path, times=moments, max_frames=num_stacked * ceil(MAX_VIDEO_S))
    if video.audio is None:
        raise MediaError(f"{path}: holds no sound; a session needs sound, pictures only accompany it")
    pictures = [_fitted(frame, frame_max_side) for frame in video.frames]
    groups = [pictures[begin : begin + num_stacked] for begin in range(0, len(pictures), num_stacked)]
    return SessionInput(
        pcm=to_pcm16(video.audio).tobytes(),
        frames=[_jpeg(group[0], _FRAME_QUALITY) for group in groups],
        composites=[_jpeg(stack(group), _STACK_QUALITY) for group in groups] if num_stacked > 1 else (),
    )


def stack(pictures: Sequence[Image.Image]) -> Image.Image:
    """The pictures of one second in one, in reading order, black lines between them, white around."""
    columns, rows = _grid(pictures)
    width = max(picture.width for picture in pictures)
    height = max(picture.height for picture in pictures)
    size = (columns * width + (columns - 1) * _GAP_PIXELS, rows * height + (rows - 1) * _GAP_PIXELS)
    whole = Image.new("RGB", size, "black")
    for place in range(columns * rows):
        corner = (place % columns * (width + _GAP_PIXELS), place // columns * (height + _GAP_PIXELS))
        whole.paste("white", (*corner, corner[0] + width, corner[1] + height))
        if place < len(pictures):
            picture = pictures[place]
            inset = ((width - picture.width) // 2, (height - picture.height) // 2)
            whole.paste(picture, (corner[0] + inset[0], corner[1] + inset[1]))
    return whole


def _grid(pictures: Sequence[Image.Image]) -> tuple[int, int]:
    """Columns and rows: 2 × 2 for four, for two or three whichever is nearer to a square, else one row."""
    count = len(pictures)
    if count == 4:
        return 2, 2
    width, height = pictures[0].size
    if count in (2, 3) and _excess(width, height * count) < _excess(width * count, height):
        return 1, count
    return count, 1


def _excess(width: int, height: int) -> float:
    return max(width, height) / min(width, height)


def _fitted(picture: Image.Image, max_side: int) -> Image.Image:
    fitted = picture.convert("RGB")
    fitted.thumbnail((max_side, max_side))
    return fitted


def _jpeg(picture: Image.Image, quality: int) -> str:
    file = io.BytesIO()
    picture.save(file, format="JPEG", quality=quality)
    return b64encode(file.getvalue()).decode("ascii")
