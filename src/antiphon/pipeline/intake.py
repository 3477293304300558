"""A built prompt to what the Thinker stage is sent: token ids, features of its media, and strong digests of both.

Plain numpy, run in a bounded pool beside the device loop: features of long clips take tens of milliseconds.
"""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from antiphon.audio.mel import offline_mels
from antiphon.core.errors import MediaError
from antiphon.pipeline.messages import AudioInput, ImageInput
from antiphon.prompt.chat_prompt import ChatPrompt

DIGEST_BYTES = 32


@dataclass(frozen=True)
class PromptInputs:
    """What a prompt is made of, ready to be encoded."""

    ids: tuple[int, ...]
    images: tuple[ImageInput, ...]
    audio: AudioInput | None


def prepare_inputs(prompt: ChatPrompt, *, num_mel_bins: int) -> PromptInputs:
    """Compute the features of a prompt's media.

    Raises:
        MediaError: samples or pixels that are not finite; they would spoil every row behind them.
    """
    images = tuple(
        ImageInput(
            start=start, num_rows=end - start, strip=strip, grid=grid, digest=media_digest("image", grid, (strip,))
        )
        for (start, end), strip, grid in zip(prompt.image_bounds, prompt.strips, prompt.patch_grids, strict=True)
    )
    for image in images:
        _require_finite(image.strip, "an image")
    for clip in prompt.clips:
        _require_finite(clip, "an audio clip")
    mels = tuple(mel for clip in prompt.clips for mel in offline_mels(clip, num_bins=num_mel_bins))
    audio = None
    if mels:
        audio = AudioInput(spans=tuple(prompt.audio_bounds), mels=mels, digest=media_digest("audio", (), mels))
    return PromptInputs(tuple(prompt.ids), images, audio)


def media_digest(kind: str, layout: tuple[int, ...], features: tuple[NDArray[np.float32], ...]) -> bytes:
    """Digest of what an encoder is given: equal digests mean equal rows, so it may key a cache.

    Size, mode and rate of the original show in the features and their shapes.
    """
    digest = blake2b(repr((kind, layout)).encode(), digest_size=DIGEST_BYTES)
    for array in features:
        digest.update(repr((array.dtype.str, array.shape)).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


def _require_finite(values: NDArray[np.float32], what: str) -> None:
    if not np.isfinite(values).all():
        raise MediaError(f"{what} of the prompt holds values that are not finite; check how it was decoded")
