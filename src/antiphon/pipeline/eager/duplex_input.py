"""Turns what a duplex unit brings (audio packet, frames, typed text) into rows of the Thinker's context.

Specification, sections 2.7 and 5.2. Inside a unit nothing separates the parts and images have no id.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from antiphon.audio.mel import REDUNDANCY_FRAMES, StreamingMel, UnitSamples
from antiphon.core.errors import MediaError
from antiphon.pipeline.eager.duplex_results import FedItem
from antiphon.pipeline.omni_model import OmniModel
from antiphon.prompt.images import prepare_image


@dataclass(frozen=True)
class Rows:
    """One run of context rows: embeddings [n, hidden], and what they are."""

    embeds: Tensor
    items: tuple[FedItem, ...]
    is_vision: bool = False

    def __len__(self) -> int:
        return len(self.embeds)


def fed_items(rows: Sequence[Rows]) -> tuple[FedItem, ...]:
    """What *rows* are, in order."""
    return tuple(item for run in rows for item in run.items)


def feed_groups(rows: Sequence[Rows], *, batches_vision: bool) -> list[Tensor]:
    """What is fed in one forward each: every run by itself, or with *batches_vision* all images with their marks."""
    if not batches_vision:
        return [run.embeds for run in rows]
    return [
        embeds
        for is_vision, group in groupby(rows, key=lambda run: run.is_vision)
        for embeds in ([torch.cat([run.embeds for run in group])] if is_vision else [run.embeds for run in group])
    ]


@dataclass(frozen=True, kw_only=True)
class UnitInput:
    """What one unit brings. `audio` None means no audio at all; an empty array asks for samples that already wait.

    `max_slices`: pieces an image may be cut into, for all frames or one number each.
    """

    audio: NDArray[np.float32] | None = None  # [N] in [−1, 1], mono 16 kHz, any length
    frames: tuple[Image.Image, ...] = ()
    max_slices: int | Sequence[int] = 1
    text: str = ""

    @property
    def kind(self) -> str:
        """What the unit list calls it: audio, vision, omni (both) or text."""
        if self.audio is not None:
            return "omni" if self.frames else "audio"
        return "vision" if self.frames else "text"

    @property
    def slices_by_frame(self) -> tuple[int, ...]:
        if isinstance(self.max_slices, int):
            return (self.max_slices,) * len(self.frames)
        if len(self.max_slices) != len(self.frames):
            raise MediaError(
                f"{len(self.frames)} frames but {len(self.max_slices)} values of max_slices; give one each"
            )
        return tuple(self.max_slices)


class UnitEncoder:
    """Encodes the parts of units. Owns the session's audio stream: waiting samples, mel buffer, encoder cache."""

    def __init__(self, model: OmniModel) -> None:
        self._thinker = model.thinker
        self._tokenizer = model.tokenizer
        self._image_config = model.image_config
        self._device = model.device
        self._samples = UnitSamples()
        self._mel = StreamingMel(redundancy_frames=REDUNDANCY_FRAMES, num_bins=model.config.audio.num_mel_bins)
        self._audio = self._thinker.new_audio_stream()

    @property
    def num_waiting_samples(self) -> int:
        return len(self._samples)

    def take_audio(self, packet: NDArray[np.float32]) -> NDArray[np.float32] | str:
        """Append *packet*; the samples of one unit, or why there are none yet."""
        if packet.ndim != 1:
            raise MediaError(f"audio has shape {packet.shape}; a duplex session takes mono samples [N]")
        self._samples.append(packet)
        samples = self._samples.take()
        if samples is None:
            return f"audio not enough: need {self._samples.required} samples, only {len(self._samples)}"
        return samples

    def encode(self, unit: UnitInput, samples: NDArray[np.float32] | None) -> list[Rows]:
        """All rows of a unit, `<unit>` first. *samples*: what `take_audio` gave; None for a unit without audio."""
        rows = [self._token(self._tokenizer.special.unit_start)]
        if unit.frames:
            rows += self._encode_frames(unit.frames, unit.slices_by_frame)
        if samples is not None:
            rows.append(self._encode_audio(samples))
        if unit.text:
            ids = self._tokenizer.encode_plain(unit.text)  # taken literally: a special token spelt in it is not parsed
            rows.append(Rows(self._embed(ids), tuple(ids)))
        return rows

    def _encode_audio(self, samples: NDArray[np.float32]) -> Rows:
        """One unit's samples, as `take_audio` cut them → ten rows."""
        chunk = self._mel.push(samples)
        mel = torch.from_numpy(chunk.mel).to(self._device)
        embeds = self._thinker.encode_audio_step(mel, self._audio, trim_front=chunk.trim_front, trim_end=chunk.trim_end)
        return Rows(embeds, (("audio", len(embeds)),))

    def _encode_frames(self, frames: Sequence[Image.Image], max_slices: Sequence[int]) -> list[Rows]:
        """Each frame as `<image>` rows `</image>`, then `<slice>` rows `</slice>` for each of its slices."""
        special = self._tokenizer.special
        prepared = [
            prepare_image(frame, self._image_config, limit) for frame, limit in zip(frames, max_slices, strict=True)
        ]
        strips = [torch.from_numpy(strip).to(self._device) for image in prepared for strip in image.strips]
        grids = [grid for image in prepared for grid in image.patch_grids]
        blocks = iter(self._thinker.encode_images(strips, grids))
        rows: list[Rows] = []
        for image in prepared:
            for index in range(len(image.strips)):
                start, end = special.image_start, special.image_end
                if index > 0:
                    start, end = special.slice_start, special.slice_end
                block = next(blocks)
                image_rows = Rows(block, (("img", len(block)),), is_vision=True)
                rows += [self._token(start, is_vision=True), image_rows, self._token(end, is_vision=True)]
        return rows

    def _token(self, token_id: int, *, is_vision: bool = False) -> Rows:
        return Rows(self._embed([token_id]), (token_id,), is_vision)

    def _embed(self, ids: Sequence[int]) -> Tensor:
        return self._thinker.embed(torch.tensor(ids, dtype=torch.int64, device=self._device))
