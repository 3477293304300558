"""A conversation as the prompt builder takes it: messages made of text, images and audio."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

ROLES = ("system", "user", "assistant", "tool")


@dataclass(frozen=True)
class TextPart:
    text: str


@dataclass(frozen=True)
class ImagePart:
    """A decoded picture. *max_slices* caps its slices; None means what the request or the checkpoint says."""

    image: Image.Image
    max_slices: int | None = None


@dataclass(frozen=True)
class AudioPart:
    samples: NDArray[np.float32]  # [N], mono 16 kHz, in [−1, 1]


Part = TextPart | ImagePart | AudioPart


@dataclass(frozen=True)
class ToolCall:
    """A call that an assistant message made. *arguments*: parsed, or the JSON text as it was produced."""

    name: str
    arguments: Mapping[str, object] | str


@dataclass(frozen=True)
class Message:
    role: str  # one of ROLES
    parts: tuple[Part, ...]
    tool_calls: tuple[ToolCall, ...] = ()
