"""Encodes the media of a prompt to rows of the Thinker, on the Thinker's stream."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from antiphon.core.errors import PromptError
from antiphon.engine.device_stream import DeviceStream
from antiphon.engine.thinker_messages import MediaRows
from antiphon.pipeline.messages import AudioInput, ImageInput, ThinkerRequest


class MediaModel(Protocol):
    """The Thinker's encoders."""

    def encode_images(self, strips: Sequence[Tensor], grids: Sequence[tuple[int, int]]) -> list[Tensor]: ...

    def encode_audio(self, mels: Sequence[Tensor]) -> list[Tensor]: ...


class MediaEncoder:
    """Encodes one request at a time: its pictures as the model batches them, its clips as one batch.

    Clips of different requests never share a batch: their padding would show in each other's rows.
    """

    def __init__(self, model: MediaModel, stream: DeviceStream) -> None:
        self._model = model
        self._stream = stream

    def encode(self, request: ThinkerRequest) -> tuple[MediaRows, ...]:
        """Rows of all media of *request*, in the order of their positions.

        Raises:
            PromptError: rows and placeholders do not fit.
        """
        with self._stream.active():
            found = [*self._images(request.images), *self._audio(request.audio)]
        return tuple(sorted(found, key=lambda media: media.start))

    def _images(self, images: Sequence[ImageInput]) -> list[MediaRows]:
        if not images:
            return []
        strips = [torch.from_numpy(image.strip).to(self._stream.device) for image in images]
        blocks = self._model.encode_images(strips, [image.grid for image in images])
        for image, rows in zip(images, blocks, strict=True):
            if len(rows) != image.num_rows:
                raise PromptError(f"an image gives {len(rows)} rows for its span of {image.num_rows} positions")
        return [MediaRows(image.start, rows, image.digest) for image, rows in zip(images, blocks, strict=True)]

    def _audio(self, audio: AudioInput | None) -> list[MediaRows]:
        if audio is None:
            return []
        mels = [torch.from_numpy(mel).to(self._stream.device) for mel in audio.mels]
        joined = torch.cat(self._model.encode_audio(mels))
        lengths = [end - start for start, end in audio.spans]
        if len(joined) < sum(lengths):
            raise PromptError(f"prompt has {sum(lengths)} audio placeholders but its clips give {len(joined)} rows")
        # Rows left over are dropped: placeholders are counted per part, and rows come from parts that were merged.
        blocks = torch.split(joined[: sum(lengths)], lengths)
        return [
            MediaRows(start, rows, audio.digest + index.to_bytes(4, "little"))
            for index, ((start, _), rows) in enumerate(zip(audio.spans, blocks, strict=True))
            if len(rows)
        ]
