"""A video as message parts: which moments are shown, and how frames and sound are woven together.

Source: model specification 2.8. Decoding is done elsewhere: `plan_video` says what to decode, `weave_video` takes it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from antiphon.audio.mel import SAMPLE_RATE_HZ
from antiphon.core.errors import MediaError
from antiphon.prompt.messages import AudioPart, ImagePart, Part

MAX_MOMENTS = 64
_LONG_VIDEO_RATE_HZ = 10  # moments of a long video are chosen among frames at this rate
_MIN_PIECE_SAMPLES = 1_600  # the encoder makes nothing of less than 0.1 s; a shorter last piece is filled with silence
_SEPARATOR_PIXELS = 6


@dataclass(frozen=True)
class Moment:
    """One frame to show, and the stretch of time it stands for."""

    start_s: float  # when the frame is taken
    end_s: float
    between_s: tuple[float, ...]  # further frames inside its first second, for the composite


def plan_video(duration_s: float, *, frames_per_second: int = 1, max_moments: int = MAX_MOMENTS) -> tuple[Moment, ...]:
    """Choose the moments of a video: one for each second, or *max_moments* evenly spread ones if it is longer.

    Args:
        frames_per_second: above 1, what happens between two moments is shown too, as one composite for each.
    """
    if not duration_s > 0:
        raise MediaError(f"the video lasts {duration_s} s; nothing of it can be shown")
    if duration_s > max_moments:
        num_candidates = int(duration_s * _LONG_VIDEO_RATE_HZ)
        chosen = np.linspace(0, num_candidates - 1, max_moments, dtype=int)
        starts = [int(place) / _LONG_VIDEO_RATE_HZ for place in chosen]
    else:
        starts = [float(second) for second in range(ceil(duration_s))]
    ends = [*starts[1:], duration_s]
    return tuple(
        Moment(start, end, tuple(time_s for time_s in _between(start, frames_per_second) if time_s < end))
        for start, end in zip(starts, ends, strict=True)
    )


def wanted_times(moments: Sequence[Moment]) -> tuple[float, ...]:
    """When to take frames for *moments*, in seconds, ascending."""
    return tuple(sorted({time_s for moment in moments for time_s in (moment.start_s, *moment.between_s)}))


def weave_video(
    moments: Sequence[Moment], frames: Mapping[float, Image.Image], samples: NDArray[np.float32] | None
) -> tuple[Part, ...]:
    """The parts of a video in the order the model saw in training: for each moment its frame, its sound, its composite.

    Args:
        frames: decoded frames by the time they were asked for (`wanted_times`).
        samples: the sound from the video's start, [N] mono 16 kHz; None for a silent video: no audio parts.
    """
    parts: list[Part] = []
    for moment in moments:
        parts.append(ImagePart(frames[moment.start_s]))
        if samples is not None:
            parts.append(AudioPart(_piece(samples, moment)))
        between = [frames[time_s] for time_s in moment.between_s]
        if between:
            parts.append(ImagePart(stack_frames(between)))
    return tuple(parts)


def stack_frames(frames: Sequence[Image.Image]) -> Image.Image:
    """Tile *frames* into one picture with black lines between them, row by row.

    Four make a square; two or three a row or a column, whatever is nearer to a square; any other number a row. Tiles
    have the size of the largest frame; a frame of another shape lies centred on white.
    """
    if not frames:
        raise MediaError("no frames to stack")
    tile = (max(frame.width for frame in frames), max(frame.height for frame in frames))
    layouts = {2: ((2, 1), (1, 2)), 3: ((3, 1), (1, 3)), 4: ((2, 2),)}.get(len(frames), ((len(frames), 1),))
    columns, rows = min(layouts, key=lambda layout: abs(_extent(layout[0], tile[0]) / _extent(layout[1], tile[1]) - 1))
    canvas = Image.new("RGB", (_extent(columns, tile[0]), _extent(rows, tile[1])), "black")
    for place, frame in enumerate(frames):
        row, column = divmod(place, columns)
        corner = (column * (tile[0] + _SEPARATOR_PIXELS), row * (tile[1] + _SEPARATOR_PIXELS))
        canvas.paste(_letterbox(frame, tile), corner)
    return canvas


def _between(start_s: float, frames_per_second: int) -> list[float]:
    return [start_s + place / frames_per_second for place in range(1, frames_per_second)]


def _piece(samples: NDArray[np.float32], moment: Moment) -> NDArray[np.float32]:
    piece = samples[int(moment.start_s * SAMPLE_RATE_HZ) : int(moment.end_s * SAMPLE_RATE_HZ)]
    return np.pad(piece, (0, max(0, _MIN_PIECE_SAMPLES - len(piece))))


def _extent(num_tiles: int, tile_length: int) -> int:
    return num_tiles * tile_length + (num_tiles - 1) * _SEPARATOR_PIXELS


def _letterbox(frame: Image.Image, tile: tuple[int, int]) -> Image.Image:
    scale = min(tile[0] / frame.width, tile[1] / frame.height)
    width, height = max(1, round(frame.width * scale)), max(1, round(frame.height * scale))
    canvas = Image.new("RGB", tile, "white")
    resized = frame.convert("RGB").resize((width, height), Image.Resampling.BICUBIC)
    canvas.paste(resized, ((tile[0] - width) // 2, (tile[1] - height) // 2))
    return canvas
