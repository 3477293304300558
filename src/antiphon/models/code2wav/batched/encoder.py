"""The flow's encoder for a batch of streams of different lengths, on fixed buffers.

The twin of `UpsampleEncoder` (model specification, section 4.4). Past keys are gathered right-aligned, so that distance
by cache index is distance by column; what lies left of a stream's past and right of its voiced ids is masked.
"""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, scaled_dot_product_attention

from antiphon.layers.flow_rows import FlowRows
from antiphon.layers.speech_shapes import FRAMES_PER_CODE, FlowCapacity
from antiphon.models.code2wav.batched.state import FlowState
from antiphon.models.code2wav.conformer import ConformerLayer, RelPositionAttention
from antiphon.models.code2wav.flow import Flow
from antiphon.models.code2wav.rel_position import by_key, distance_features


class _Rate:
    """The layers of one rate, with their projections of every distance tabled: weights alone decide them."""

    def __init__(self, layers: nn.ModuleList, num_past: int, width: int) -> None:
        self.layers = [cast(ConformerLayer, layer) for layer in layers]
        self.num_past, self.width = num_past, width
        self.positions: list[Tensor] = []  # of each layer: [H, D, distances]
        for layer in self.layers:
            weight = layer.self_attn.linear_pos.weight
            distances = distance_features(width, num_past + width, weight.shape[1], weight.device).to(weight.dtype)
            projected = layer.self_attn.linear_pos(distances).view(len(distances), layer.self_attn.num_heads, -1)
            self.positions.append(projected.permute(1, 2, 0).contiguous())

    def run(
        self, x: Tensor, kv: Tensor, slot: Tensor, past: Tensor, num_past: Tensor, writes: Tensor, num_new: Tensor
    ) -> Tensor:
        """*x* [B, T, C] through the layers; *kv* [layers, S, size, H, 2D] is read at *past* and written at *writes*."""
        size = kv.shape[2]
        read = slot[:, None] * size + past
        write = (slot[:, None] * size + writes).flatten()
        column = torch.arange(-self.num_past, self.width, device=x.device)
        seen = (column >= -num_past[:, None]) & (column < num_new[:, None])
        bias = torch.zeros_like(seen, dtype=x.dtype).masked_fill_(~seen, -torch.inf)[:, None, None]
        for layer, positions, rows in zip(self.layers, self.positions, kv.flatten(1, 2), strict=True):
            mixed, new = _attend(layer.self_attn, layer.norm_mha(x), positions, rows[read], bias)
            rows.index_copy_(0, write, new.flatten(0, 1))
            x = x + mixed
            x = x + layer.feed_forward(layer.norm_ff(x))
        return x


def _attend(
    attention: RelPositionAttention, x: Tensor, positions: Tensor, past: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor]:
    """From *x* [B, T, C] to *past* [B, L, H, 2D] and itself; returns [B, T, C] and the new entries [B, T, H, 2D]."""
    shape = (*x.shape[:2], attention.num_heads, attention.head_dim)
    q = attention.linear_q(x).view(shape).transpose(1, 2)
    new = torch.cat((attention.linear_k(x).view(shape), attention.linear_v(x).view(shape)), dim=-1)
    keys, values = torch.cat((past, new), dim=1).transpose(1, 2).chunk(2, dim=-1)
    scores = by_key((q + attention.pos_bias_v[:, None]) @ positions) * attention.head_dim**-0.5 + bias
    mixed = scaled_dot_product_attention(q + attention.pos_bias_u[:, None], keys, values, attn_mask=scores)
    out: Tensor = attention.linear_out(mixed.transpose(1, 2).flatten(2))
    return out, new


class BatchedEncoder:
    """Encodes chunks of up to *width* voiced ids of streams in slots of one capacity."""

    def __init__(self, flow: Flow, capacity: FlowCapacity, width: int) -> None:
        encoder = flow.encoder
        self.flow, self.encoder, self.width = flow, encoder, width
        self.tokens = _Rate(encoder.encoders, capacity.kept_tokens, width)
        self.frames = _Rate(encoder.up_encoders, capacity.kept_frames, FRAMES_PER_CODE * width)

    def __call__(self, rows: FlowRows, state: FlowState) -> Tensor:
        """The flow's condition [B, 2 · width, mel] of the rows' ids; caches of their slots are advanced."""
        encoder, slot, num_voiced = self.encoder, rows.slot, rows.num_voiced
        x = encoder.embed(self.flow.embed(rows.codes))
        # A last chunk looks ahead at zeros behind the embed layer; a short one ends in zeros, which nobody hears.
        is_beyond = torch.arange(x.shape[1], device=x.device) >= rows.num_codes[:, None]
        x = x.masked_fill(is_beyond[:, :, None], 0.0)
        x = self._look_ahead(x, state.lookahead, slot, num_voiced)
        x = self.tokens.run(
            x, state.token_kv, slot, rows.token_past, rows.num_token_past, rows.token_writes, num_voiced
        )
        x = self._upsample(x, state.upsample, slot, num_voiced)
        num_frames = FRAMES_PER_CODE * num_voiced
        x = self.frames.run(
            encoder.up_embed(x), state.frame_kv, slot, rows.frame_past, rows.num_frame_past, rows.frame_writes,
            num_frames,
        )  # fmt: skip
        out: Tensor = self.flow.encoder_proj(encoder.after_norm(x))
        return out

    def _look_ahead(self, x: Tensor, past: Tensor, slot: Tensor, num_voiced: Tensor) -> Tensor:
        layer = self.encoder.pre_lookahead_layer
        ahead = torch.cat((past[slot], leaky_relu(layer.conv1(x.transpose(1, 2)), 0.01)), dim=2)
        past.index_copy_(0, slot, columns_from(ahead, num_voiced, past.shape[2]))
        out: Tensor = layer.conv2(ahead).transpose(1, 2) + x[:, : self.width]
        return out

    def _upsample(self, x: Tensor, past: Tensor, slot: Tensor, num_voiced: Tensor) -> Tensor:
        layer = self.encoder.up_layer
        frames = torch.cat((past[slot], x.transpose(1, 2).repeat_interleave(layer.stride, dim=2)), dim=2)
        past.index_copy_(0, slot, columns_from(frames, layer.stride * num_voiced, past.shape[2]))
        out: Tensor = layer.conv(frames).transpose(1, 2)
        return out


def columns_from(x: Tensor, start: Tensor, count: int) -> Tensor:
    """Columns [start, start + count) of *x* [B, C, T], with a *start* [B] for each row: [B, C, count]."""
    index = start[:, None] + torch.arange(count, device=x.device)
    return x.gather(2, index[:, None].expand(-1, x.shape[1], -1))
