"""What the streaming audio encoder is given and what it gives back."""

from dataclasses import dataclass

from torch import Tensor

from antiphon.engine.device_stream import Fence


@dataclass(frozen=True, kw_only=True, eq=False)
class AudioStep:
    """The next unit of one stream, as the mel stream emitted it.

    Attributes:
        mel: [num_mel_bins, n] float32, on the host or the device: 102 frames the first time, 104 later.
        trim_front, trim_end: frames to cut after the encoder's convolutions.
    """

    stream_id: str
    mel: Tensor
    trim_front: int
    trim_end: int


@dataclass(frozen=True, eq=False)
class AudioRows:
    """Rows [10, hidden] on the device for each step, in order, to be read after *ready*."""

    rows: tuple[Tensor, ...]
    ready: Fence
