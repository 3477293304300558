"""The flow model's encoder: codec ids' embeddings at 25 Hz in, hidden frames at 50 Hz out, whole or chunk by chunk.

Model specification, section 4.4. An utterance in one piece is one last chunk on an empty cache, so there is one forward
pass.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, pad, scaled_dot_product_attention, silu

from antiphon.config.checkpoint import FlowEncoderConfig
from antiphon.models.code2wav.rel_position import by_key, distance_features

LOOKAHEAD_CONTEXT = 2  # frames that the second look-ahead convolution (kernel 3) remembers


@dataclass(frozen=True)
class EncoderCache:
    """What one stream's encoder remembers.

    Keys and values of each rate, oldest first, are joined in the last dimension.

    The reference stores the token-rate entries twice along time and reads the first half; here they are stored once,
    and `trimmed` alone knows about the doubling.
    """

    lookahead: Tensor  # [B, C, 2] input of the second look-ahead convolution
    upsample: Tensor  # [B, C, 2 · stride] input of the up-sampling convolution
    token_kv: Tensor  # [num_blocks, B, H, T, 2D]
    frame_kv: Tensor  # [num_up_blocks, B, H, M, 2D]

    def __len__(self) -> int:
        """Mel frames remembered: the length on which the trimming rule works."""
        return self.frame_kv.shape[3]

    def trimmed(self, num_head: int, num_tail: int) -> "EncoderCache":
        """Keep the first *num_head* and the last *num_tail* frames.

        Trap of the checkpoint's code: the same two slices are applied to the *doubled* token-rate array, whose reader
        then takes its first half. So the token-rate layers keep their earliest entries and never the newest (section
        4.6).
        """
        num_frames = len(self)
        device = self.frame_kv.device
        kept = torch.cat(
            (torch.arange(num_head, device=device), torch.arange(num_frames - num_tail, num_frames, device=device))
        )
        num_tokens = self.token_kv.shape[3]
        first_half = kept[: kept.shape[0] // 2] % num_tokens
        return EncoderCache(
            self.lookahead, self.upsample, self.token_kv[:, :, :, first_half], self.frame_kv[:, :, :, kept]
        )

    def clone(self) -> "EncoderCache":
        return EncoderCache(self.lookahead.clone(), self.upsample.clone(), self.token_kv.clone(), self.frame_kv.clone())


class RelPositionAttention(nn.Module):
    """Multi-head attention with a score for content and one for distance; every query sees every key."""

    def __init__(self, size: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads, self.head_dim = num_heads, size // num_heads
        self.linear_q = nn.Linear(size, size)
        self.linear_k = nn.Linear(size, size)
        self.linear_v = nn.Linear(size, size)
        self.linear_out = nn.Linear(size, size)
        self.linear_pos = nn.Linear(size, size, bias=False)
        self.pos_bias_u = nn.Parameter(torch.zeros(num_heads, self.head_dim))
        self.pos_bias_v = nn.Parameter(torch.zeros(num_heads, self.head_dim))

    def forward(self, x: Tensor, distances: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """Attend from *x* [B, T, C] to *past* [B, H, L, 2D] and itself; returns [B, T, C] and all keys and values."""
        q, k, v = self._heads(self.linear_q(x)), self._heads(self.linear_k(x)), self._heads(self.linear_v(x))
        kv = torch.cat((past, torch.cat((k, v), dim=-1)), dim=2)
        keys, values = kv.chunk(2, dim=-1)
        position = self.linear_pos(distances).view(-1, self.num_heads, self.head_dim).transpose(0, 1)
        scores = by_key((q + self.pos_bias_v[:, None]) @ position.transpose(1, 2)) * self.head_dim**-0.5
        mixed = scaled_dot_product_attention(q + self.pos_bias_u[:, None], keys, values, attn_mask=scores)
        return self.linear_out(mixed.transpose(1, 2).flatten(2)), kv

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:2], self.num_heads, self.head_dim).transpose(1, 2)


class FeedForward(nn.Module):
    def __init__(self, size: int, inner_size: int) -> None:
        super().__init__()
        self.w_1 = nn.Linear(size, inner_size)
        self.w_2 = nn.Linear(inner_size, size)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.w_2(silu(self.w_1(x)))
        return out


class ConformerLayer(nn.Module):
    """Pre-norm attention and feed-forward; this checkpoint's conformer has neither macaron nor convolution module."""

    def __init__(self, size: int, num_heads: int, inner_size: int) -> None:
        super().__init__()
        self.self_attn = RelPositionAttention(size, num_heads)
        self.feed_forward = FeedForward(size, inner_size)
        self.norm_mha = nn.LayerNorm(size, eps=1e-12)
        self.norm_ff = nn.LayerNorm(size, eps=1e-12)

    def forward(self, x: Tensor, distances: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        mixed, kv = self.self_attn(self.norm_mha(x), distances, past)
        x = x + mixed
        return x + self.feed_forward(self.norm_ff(x)), kv


class ScaledEmbed(nn.Module):
    """Linear, LayerNorm, times √size. Both rates have one, and both scale; positions are not added."""

    def __init__(self, in_size: int, size: int) -> None:
        super().__init__()
        self.out = nn.Sequential(nn.Linear(in_size, size), nn.LayerNorm(size, eps=1e-5))
        self.scale = size**0.5

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(x) * self.scale
        return out


class Lookahead(nn.Module):
    """Lets every frame see the next *lookahead* ones; they are consumed, so the output is that much shorter."""

    def __init__(self, size: int, lookahead: int) -> None:
        super().__init__()
        self.lookahead = lookahead
        self.conv1 = nn.Conv1d(size, size, lookahead + 1)
        self.conv2 = nn.Conv1d(size, size, LOOKAHEAD_CONTEXT + 1)

    def forward(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """From *x* [B, T + lookahead, C] and *past* [B, C, 2] to [B, T, C] and the new past."""
        ahead = leaky_relu(self.conv1(x.transpose(1, 2)), 0.01)
        ahead = torch.cat((past, ahead), dim=2)
        out = self.conv2(ahead).transpose(1, 2) + x[:, : x.shape[1] - self.lookahead]
        return out, ahead[:, :, -LOOKAHEAD_CONTEXT:]


class Upsample(nn.Module):
    """Repeats every frame *stride* times, then a causal convolution of kernel 2 · stride + 1."""

    def __init__(self, size: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.conv = nn.Conv1d(size, size, 2 * stride + 1)

    def forward(self, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """From *x* [B, T, C] and *past* [B, C, 2 · stride] to [B, stride · T, C] and the new past."""
        frames = torch.cat((past, x.transpose(1, 2).repeat_interleave(self.stride, dim=2)), dim=2)
        return self.conv(frames).transpose(1, 2), frames[:, :, -2 * self.stride :]


class UpsampleEncoder(nn.Module):
    """Conformer at the token rate, up-sampling, conformer at the frame rate. Sub-module names are the checkpoint's."""

    def __init__(self, config: FlowEncoderConfig) -> None:
        super().__init__()
        size, num_heads, inner = config.output_size, config.num_heads, config.linear_units
        self.config = config
        self.embed = ScaledEmbed(config.input_size, size)
        self.pre_lookahead_layer = Lookahead(size, config.lookahead)
        self.encoders = nn.ModuleList(ConformerLayer(size, num_heads, inner) for _ in range(config.num_blocks))
        self.up_layer = Upsample(size, config.up_stride)
        self.up_embed = ScaledEmbed(size, size)
        self.up_encoders = nn.ModuleList(ConformerLayer(size, num_heads, inner) for _ in range(config.num_up_blocks))
        self.after_norm = nn.LayerNorm(size, eps=1e-5)

    def empty_cache(self, num_streams: int = 1) -> EncoderCache:
        """The cache of streams that have heard nothing: zeros before the convolutions, no keys."""
        config, new = self.config, self.after_norm.weight.new_zeros
        size, heads = config.output_size, config.num_heads
        double_head = 2 * size // heads
        return EncoderCache(
            lookahead=new(num_streams, size, LOOKAHEAD_CONTEXT),
            upsample=new(num_streams, size, 2 * config.up_stride),
            token_kv=new(config.num_blocks, num_streams, heads, 0, double_head),
            frame_kv=new(config.num_up_blocks, num_streams, heads, 0, double_head),
        )

    def forward(self, x: Tensor, cache: EncoderCache, *, is_last: bool) -> tuple[Tensor, EncoderCache]:
        """Encode one chunk.

        Args:
            x: embedded codec ids, [B, T, input_size]. Unless *is_last* the final `lookahead` of them are only looked at
                and must be given again with the next chunk.
            cache: what the streams remember; not changed.
            is_last: nothing follows; the missing look-ahead is zeros.

        Returns:
            Hidden frames [B, stride · (T or T − lookahead), output_size] and the new cache.
        """
        x = self.embed(x)
        if is_last:
            # The zeros stand behind the embed layer. They are neither silence codes nor zero embeddings of codes.
            x = pad(x, (0, 0, 0, self.config.lookahead))
        x, lookahead = self.pre_lookahead_layer(x, cache.lookahead)
        x, token_kv = self._run(self.encoders, x, cache.token_kv)
        x, upsample = self.up_layer(x, cache.upsample)
        x, frame_kv = self._run(self.up_encoders, self.up_embed(x), cache.frame_kv)
        return self.after_norm(x), EncoderCache(lookahead, upsample, token_kv, frame_kv)

    def _run(self, layers: nn.ModuleList, x: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        num_new = x.shape[1]
        distances = distance_features(num_new, past.shape[3] + num_new, x.shape[2], x.device).to(x.dtype)
        kv: list[Tensor] = []
        for index, layer in enumerate(layers):
            x, layer_kv = layer(x, distances, past[index])
            kv.append(layer_kv)
        return x, torch.stack(kv)
