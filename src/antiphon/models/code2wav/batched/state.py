"""What streams and voices keep on the device: rows of fixed buffers, and the templates that are copied into them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.layers.speech_shapes import FRAMES_PER_CODE, FlowCapacity
from antiphon.models.code2wav.code2wav import VoiceTemplate
from antiphon.models.code2wav.conformer import LOOKAHEAD_CONTEXT
from antiphon.models.code2wav.dit import CONV_CONTEXT
from antiphon.models.code2wav.flow import Flow

NUM_GUIDANCE = 2  # rows of a stream inside the solver: conditional, unconditional


@dataclass(frozen=True)
class FlowTemplate:
    """The state that each turn of a voice starts from, in the buffers' layout; P prompt frames."""

    speaker: Tensor  # [mel]
    lookahead: Tensor  # [C, 2]
    upsample: Tensor  # [C, 2 · stride]
    token_kv: Tensor  # [num_blocks, P / 2, H, 2D]
    frame_kv: Tensor  # [num_up_blocks, P, H, 2D]
    solver_kv: Tensor  # [N, depth, 2, H, P, 2, D]
    solver_conv: Tensor  # [N, depth, 2 convolutions, 2 frames, 2, hidden]
    num_prompt_frames: int

    @property
    def num_bytes(self) -> int:
        tensors = (self.lookahead, self.upsample, self.token_kv, self.frame_kv, self.solver_kv, self.solver_conv)
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    @staticmethod
    def of(template: VoiceTemplate) -> "FlowTemplate":
        """Lay a template of the eager path out anew."""
        encoder, solver = template.flow.encoder, template.flow.solver
        num_steps, depth, rows, channels, frames = solver.conv.shape
        conv = solver.conv.view(num_steps, depth, rows, 2, channels // 2, frames)
        kv = torch.stack((solver.keys, solver.values), dim=-2)  # [N, depth, 2, H, P, 2, D]
        return FlowTemplate(
            speaker=template.speaker[0].clone(),
            lookahead=encoder.lookahead[0].clone(),
            upsample=encoder.upsample[0].clone(),
            token_kv=encoder.token_kv[:, 0].transpose(1, 2).contiguous(),
            frame_kv=encoder.frame_kv[:, 0].transpose(1, 2).contiguous(),
            solver_kv=kv.contiguous(),
            solver_conv=conv.permute(0, 1, 3, 5, 2, 4).contiguous(),
            num_prompt_frames=template.flow.num_prompt_frames,
        )


class FlowState:
    """Caches of all slots of one capacity; the row after the last slot is scratch, for the padding of batches.

    Entries of one stream's cache lie in any order (the engine knows it), key and value side by side. In the solver's
    cache a head's entries lie together, so that the heads of all streams, conditional and unconditional, are one batch
    of matrices.
    Invariant: whatever a slot holds is finite unless its own stream is not; masked entries are read too.
    """

    def __init__(self, flow: Flow, capacity: FlowCapacity, num_steps: int) -> None:
        encoder, dit = flow.config.encoder, flow.config.dit
        heads, head_size = encoder.num_heads, encoder.output_size // encoder.num_heads
        new, rows = flow.encoder_proj.weight.new_zeros, capacity.num_slots + 1
        self.capacity = capacity
        self.speaker = new(rows, flow.config.num_mel_bins)
        self.lookahead = new(rows, encoder.output_size, LOOKAHEAD_CONTEXT)
        self.upsample = new(rows, encoder.output_size, 2 * encoder.up_stride)
        self.token_kv = new(encoder.num_blocks, rows, capacity.token_size, heads, 2 * head_size)
        self.frame_kv = new(encoder.num_up_blocks, rows, capacity.frame_size, heads, 2 * head_size)
        self.solver_kv = new(
            num_steps, dit.depth, rows, NUM_GUIDANCE, dit.num_heads, capacity.solver_size, 2, dit.head_dim
        )
        self.solver_conv = new(num_steps, dit.depth, 2, rows, CONV_CONTEXT, NUM_GUIDANCE, dit.hidden_size)

    @property
    def num_bytes(self) -> int:
        tensors = (self.lookahead, self.upsample, self.token_kv, self.frame_kv, self.solver_kv, self.solver_conv)
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def restore(self, slot: int, template: FlowTemplate) -> None:
        """Start a turn in *slot*. The rest of its buffers is zeroed: an earlier borrower may have left NaNs there."""
        num_frames = template.num_prompt_frames
        num_tokens = num_frames // FRAMES_PER_CODE
        self.speaker[slot] = template.speaker
        self.lookahead[slot] = template.lookahead
        self.upsample[slot] = template.upsample
        self.token_kv[:, slot, :num_tokens] = template.token_kv
        self.token_kv[:, slot, num_tokens:].zero_()
        self.frame_kv[:, slot, :num_frames] = template.frame_kv
        self.frame_kv[:, slot, num_frames:].zero_()
        self.solver_kv[:, :, slot, :, :, :num_frames] = template.solver_kv
        self.solver_kv[:, :, slot, :, :, num_frames:].zero_()
        self.solver_conv[:, :, :, slot] = template.solver_conv
