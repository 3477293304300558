"""From a second of sound and its pictures to what the Thinker stage is sent: plain numpy, for the intake's threads."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from antiphon.audio.mel import REDUNDANCY_FRAMES, UNIT_SAMPLES, MelChunk, StreamingMel, UnitSamples
from antiphon.config.checkpoint import ImageConfig
from antiphon.core.errors import MediaError
from antiphon.pipeline.messages import UnitImage
from antiphon.prompt.images import prepare_image

# A base frame is cut into two slices at most, a composite of stacked frames into none (model specification, 5.4).
_MAX_SLICES = (2, 1)


@dataclass(frozen=True)
class PreparedUnit:
    """Features of a unit."""

    audio: MelChunk
    images: tuple[UnitImage, ...]


class UnitReader:
    """One session's input stream. Units must come in order, one at a time, from whatever thread."""

    def __init__(self, image_config: ImageConfig, *, num_mel_bins: int) -> None:
        self._image_config = image_config
        self._samples = UnitSamples()
        self._mel = StreamingMel(redundancy_frames=REDUNDANCY_FRAMES, num_bins=num_mel_bins)

    def read(self, samples: NDArray[np.float32], frames: Sequence[Image.Image]) -> PreparedUnit:
        """The next unit: *samples* [16000] at 16 kHz and at most a frame and its composite.

        Raises:
            MediaError: not a second, values that are not finite, or too many frames; the unit is not taken.
        """
        if samples.shape != (UNIT_SAMPLES,):
            raise MediaError(f"a unit's audio has the shape {samples.shape}; expected ({UNIT_SAMPLES},)")
        if not np.isfinite(samples).all():
            raise MediaError("a unit's audio holds values that are not finite; check how it was decoded")
        if len(frames) > len(_MAX_SLICES):
            raise MediaError(f"a unit has {len(frames)} frames; at most a frame and its stacked composite")
        # A composite beside the frame says that stacked frames are in use; a frame alone is not cut.
        limits = _MAX_SLICES if len(frames) == len(_MAX_SLICES) else (1,)
        images = tuple(
            UnitImage(strip=strip, grid=grid, is_slice=index > 0)
            for frame, limit in zip(frames, limits, strict=False)
            for image in (prepare_image(frame, self._image_config, limit),)
            for index, (strip, grid) in enumerate(zip(image.strips, image.patch_grids, strict=True))
        )
        self._samples.append(samples)
        taken = self._samples.take()
        assert taken is not None  # zeros stand in for what the first unit lacks
        return PreparedUnit(self._mel.push(taken), images)
