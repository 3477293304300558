"""A sample's media: kept as files, its sound as the model hears it, its pictures as model and judge see them."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from antiphon.audio.decode import load_audio
from antiphon.audio.video import load_video
from antiphon.bench.duplex_eval.samples import Media, Sample

RATE_HZ = 16_000
UNIT_SAMPLES = RATE_HZ  # one second
MEDIA_FOLDER = ".media"
_JPEG_QUALITY = 85
_MAX_FRAMES = 600


@dataclass(frozen=True)
class Stream:
    """What is sent of a sample.

    Attributes:
        pcm: 16-bit samples of whole units, [N] at 16 kHz.
        frames: a JPEG for some of the units, by the unit's number.
        duration_s: of the video.
    """

    pcm: NDArray[np.int16]
    frames: dict[int, bytes]
    duration_s: float

    @property
    def num_units(self) -> int:
        return len(self.pcm) // UNIT_SAMPLES


def keep_media(sample: Sample, root: Path) -> Path:
    """The sample's video as a file: where it lies, or below *root* if it came inside a table."""
    if isinstance(sample.video, Path):
        return sample.video
    path = root / MEDIA_FOLDER / sample.split / f"{sample.sample_id}.mp4"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        part.write_bytes(sample.video)
        part.replace(path)
    return path


def make_stream(video: Path, question: Media | None, fps: float) -> Stream:
    """Mix the spoken question into the video's sound and take *fps* frames a second, at most one for each unit.

    Raises:
        MediaError: a file cannot be decoded.
    """
    clip = load_video(video, times=lambda duration_s: list(np.arange(0, duration_s, 1 / fps)), max_frames=_MAX_FRAMES)
    asked = load_audio(question) if question is not None else np.zeros(0, np.float32)
    num_units = max(1, round(np.ceil(clip.duration_s - 1e-3)))
    mixed = np.zeros(num_units * UNIT_SAMPLES, np.float32)
    for sound in (clip.audio, asked):
        if sound is not None:
            num_kept = min(len(sound), len(mixed))
            mixed[:num_kept] += sound[:num_kept]
    pcm = np.round(np.clip(mixed, -1, 1) * 32767).astype(np.int16)
    frames = {int(time_s): _jpeg(frame) for time_s, frame in zip(clip.times_s, clip.frames, strict=True)}
    return Stream(pcm, {unit: frame for unit, frame in frames.items() if unit < num_units}, clip.duration_s)


def video_duration_s(video: Path) -> float:
    return load_video(video, times=lambda _: [0.0], with_audio=False).duration_s


def frames_at(video: Path, times_s: Sequence[float]) -> list[bytes]:
    """A JPEG for each of *times_s*, ascending."""
    clip = load_video(video, times=lambda _: times_s, max_frames=_MAX_FRAMES, with_audio=False)
    return [_jpeg(frame) for frame in clip.frames]


def _jpeg(frame: Image.Image) -> bytes:
    file = io.BytesIO()
    frame.convert("RGB").save(file, format="JPEG", quality=_JPEG_QUALITY)
    return file.getvalue()
