"""Code2Wav for an engine: slots of state on the device, and launches over batches of them that a graph can capture."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.core.errors import ConfigError
from antiphon.layers.flow_kernels import FlowKernels
from antiphon.layers.flow_rows import RowLayout
from antiphon.layers.speech_shapes import FRAMES_PER_CODE, FlowCapacity, VocoderShape
from antiphon.models.code2wav.batched.encoder import BatchedEncoder
from antiphon.models.code2wav.batched.solver import BatchedSolver
from antiphon.models.code2wav.batched.state import FlowState, FlowTemplate
from antiphon.models.code2wav.batched.vocoder import BatchedVocoder, num_samples
from antiphon.models.code2wav.code2wav import Code2Wav
from antiphon.models.code2wav.counter_source import next_source_start
from antiphon.models.code2wav.flow import VoicePrompt
from antiphon.models.code2wav.hift_stream import HELD_FRAMES, HELD_SAMPLES


@dataclass(frozen=True)
class BatchedVoice:
    """A voice whose turns can start in any slot."""

    template: FlowTemplate
    states: Sequence[FlowState]

    @property
    def num_prompt_frames(self) -> int:
        return self.template.num_prompt_frames

    @property
    def num_bytes(self) -> int:
        return self.template.num_bytes

    def restore(self, class_index: int, slot: int) -> None:
        """Put a slot at the start of a turn in this voice."""
        self.states[class_index].restore(slot, self.template)


@dataclass(frozen=True)
class _Flow:
    """The flow for one class of slots and one width of chunks."""

    state: FlowState
    layout: RowLayout
    encoder: BatchedEncoder
    inputs: Tensor  # [max batch, layout.size] int64


class BatchedCode2Wav:
    """One model with its slots. Every class of slots and the vocoder have a scratch row, after the last slot.

    Args:
        model: with its weights on the device; they stay shared, what is packed anew is copied.
        noise: start noise of the flow, [1, mel, n] on the device.
        capacities: classes of slots. The vocoder numbers the slots through all classes, in this order.
        widths: codec ids voiced by one chunk, at most; one flow each.
        kernels: of the solver; None for its torch twin.
    """

    held_frames = HELD_FRAMES
    held_samples = HELD_SAMPLES

    def __init__(
        self,
        model: Code2Wav,
        *,
        num_steps: int,
        noise: Tensor,
        capacities: Sequence[FlowCapacity],
        widths: Sequence[int],
        max_batch: int,
        kernels: FlowKernels | None = None,
    ) -> None:
        flow = model.flow
        encoder = flow.config.encoder
        if encoder.up_stride != FRAMES_PER_CODE:
            raise ConfigError(
                f"code2wav: the encoder makes {encoder.up_stride} frames of a codec id; batches need {FRAMES_PER_CODE}"
            )
        self.model, self.num_steps, self.noise = model, num_steps, noise
        self.capacities = tuple(capacities)
        self.num_codec_ids = flow.config.num_codec_ids
        self.lookahead = encoder.lookahead
        self._solver = BatchedSolver(flow.decoder, num_steps, noise, kernels)
        self.states = [FlowState(flow, capacity, num_steps) for capacity in capacities]
        self._flows = {}
        for index, state in enumerate(self.states):
            for width in widths:
                layout = RowLayout(state.capacity, width, self.lookahead)
                inputs = torch.zeros(max_batch, layout.size, dtype=torch.int64, device=noise.device)
                self._flows[index, width] = _Flow(
                    state, layout, BatchedEncoder(flow, state.capacity, width), inputs
                )  # fmt: skip
        num_slots = sum(capacity.num_slots for capacity in capacities)
        self.vocoder = BatchedVocoder(model.hift, num_slots, max_batch, FRAMES_PER_CODE * max(widths))

    @property
    def has_kernels(self) -> bool:
        return self._solver.kernels is not None

    @property
    def bytes_per_slot(self) -> list[int]:
        """Device memory of one slot of each class."""
        return [state.num_bytes // (state.capacity.num_slots + 1) for state in self.states]

    @property
    def max_samples(self) -> int:
        """Of one chunk."""
        return self.vocoder.max_samples

    @property
    def vocoder_inputs(self) -> Tensor:
        """[max batch, 4] int64: row of the flow's output, slot, seed of the noise, first source sample."""
        return self.vocoder.inputs

    def make_voice(self, codes: Tensor, xvector: Tensor, mel: Tensor) -> BatchedVoice:
        """Compute the state that a voice's turns start from, through the eager path: some 10,000 launches."""
        device = self.noise.device
        prompt = VoicePrompt(codes.to(device), xvector.to(device), mel.to(device))
        return BatchedVoice(FlowTemplate.of(self.model.template(prompt, self.noise, self.num_steps)), self.states)

    def flow_layout(self, class_index: int, width: int) -> RowLayout:
        return self._flows[class_index, width].layout

    def flow_inputs(self, class_index: int, width: int) -> Tensor:
        """[max batch, layout.size] int64, read by `run_flow`."""
        return self._flows[class_index, width].inputs

    def run_flow(self, class_index: int, width: int, batch: int) -> None:
        """Encoder and ODE of the first *batch* input rows; the mel stays for `run_vocoder`."""
        flow = self._flows[class_index, width]
        rows = flow.layout.split(flow.inputs[:batch])
        mel = self._solver(flow.encoder(rows, flow.state), rows, flow.state)
        self.vocoder.mel[:batch, :, : mel.shape[1]] = mel.transpose(1, 2)

    def run_vocoder(self, shape: VocoderShape, batch: int) -> None:
        """Vocode the first *batch* of `vocoder_inputs`."""
        self.vocoder.run(shape, batch)

    def vocoder_output(self, shape: VocoderShape, batch: int) -> Tensor:
        """Samples of the last `run_vocoder`, [batch, num_samples(shape)] float32, until the next."""
        return self.vocoder.output(shape, batch)

    def num_samples(self, shape: VocoderShape) -> int:
        return num_samples(shape)

    def next_source_start(self, start: int, num_made: int) -> int:
        """First source sample of the chunk after one of *num_made* samples from *start*."""
        return next_source_start(start, num_made)
