"""What a session needs of the vocoder: codes in, samples out, and a way to start afresh."""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor


class Voice(Protocol):
    """One voice, carried from unit to unit of a turn. `VocoderStream` is one."""

    def push(self, codes: Sequence[int], *, first: bool, end_of_turn: bool) -> Tensor:
        """Samples [N] float32, 24 kHz, that *codes* make audible now; *end_of_turn* also voices what was held back."""
        ...

    def reset(self) -> None:
        """Forget the turn: waiting codes, caches, held samples."""
        ...
