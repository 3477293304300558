"""What the vocoding engine asks of its model; `models.code2wav.batched` is one."""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from antiphon.layers.flow_rows import RowLayout
from antiphon.layers.speech_shapes import FlowCapacity, VocoderShape


class VoiceFeatures(Protocol):
    """A reference voice as tensors, on any device."""

    @property
    def codes(self) -> Tensor: ...  # [1, Np] int64

    @property
    def xvector(self) -> Tensor: ...  # [1, 192]

    @property
    def mel(self) -> Tensor: ...  # [1, mel, 2 · Np]


class VoiceState(Protocol):
    """The device state that a voice's turns start from."""

    @property
    def num_prompt_frames(self) -> int: ...

    @property
    def num_bytes(self) -> int: ...

    def restore(self, class_index: int, slot: int) -> None:
        """Put a slot at the start of a turn."""
        ...


class SpeechModel(Protocol):
    """Slots on the device, in classes by capacity, and launches over batches of them.

    The row after a class's last slot is scratch; so is the vocoder's row after all classes' slots.
    """

    @property
    def capacities(self) -> Sequence[FlowCapacity]: ...

    @property
    def num_codec_ids(self) -> int: ...

    @property
    def lookahead(self) -> int: ...  # codec ids

    @property
    def held_frames(self) -> int: ...  # at the end of each chunk

    @property
    def held_samples(self) -> int: ...

    @property
    def has_kernels(self) -> bool: ...  # the flow runs through Triton kernels

    @property
    def max_samples(self) -> int: ...  # of one chunk

    @property
    def vocoder_inputs(self) -> Tensor: ...  # [max batch, 4] int64: flow row, slot, noise seed, first source sample

    def make_voice(self, codes: Tensor, xvector: Tensor, mel: Tensor) -> VoiceState: ...

    def flow_layout(self, class_index: int, width: int) -> RowLayout: ...

    def flow_inputs(self, class_index: int, width: int) -> Tensor:
        """[max batch, layout.size] int64, read by `run_flow`."""
        ...

    def run_flow(self, class_index: int, width: int, batch: int) -> None: ...

    def run_vocoder(self, shape: VocoderShape, batch: int) -> None: ...

    def vocoder_output(self, shape: VocoderShape, batch: int) -> Tensor:
        """[batch, samples], until the next `run_vocoder`."""
        ...

    def num_samples(self, shape: VocoderShape) -> int: ...

    def next_source_start(self, start: int, num_made: int) -> int: ...
