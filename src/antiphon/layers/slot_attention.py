"""Attention over slot caches: Triton kernels where the device has them, their torch twins elsewhere.

Each is a `StackedAttend`: it rotates queries and keys, stores keys and values, and attends. Decoders with q/k norms use
a paged cache; here there are none.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from antiphon.layers.kernels import has_triton
from antiphon.layers.rope import rotate
from antiphon.layers.slot_cache import HeadSizes, SlotCache
from antiphon.layers.stacked_decoder import StackedAttend


@dataclass(frozen=True)
class SlotTokens:
    """The tokens of one launch.

    Attributes:
        slots: whose cache a token belongs to, [T] int64.
        lengths: cache entries in front of the token, so where its own goes, [T] int64.
        cos, sin: angles of its position, [T, D] float32.
    """

    slots: Tensor
    lengths: Tensor
    cos: Tensor
    sin: Tensor


@dataclass(frozen=True)
class Extension:
    """Neighbouring tokens [start, end) of a launch that extend *slot* from *length* entries on, as the host knows."""

    slot: int
    length: int
    start: int
    end: int


class DecodeTwin:
    """One new token for each row. *span*: cache entries to look at, at least those of the longest row and its own."""

    def __init__(self, cache: SlotCache, tokens: SlotTokens, *, span: int) -> None:
        self.cache, self.tokens = cache, tokens
        places = torch.arange(span, device=tokens.lengths.device)
        self._is_seen = (places[None] <= tokens.lengths[:, None])[:, None, None]  # [B, 1, 1, span]
        self._span = span

    def __call__(self, layer: int, qkv: Tensor, q_norm: Tensor | None, k_norm: Tensor | None) -> Tensor:
        """*qkv* [B, (H + 2·H_kv)·D] → mixed values [B, H·D]."""
        assert q_norm is None
        assert k_norm is None
        q = _rotate_and_store(self.cache, layer, qkv, self.tokens)
        # Neither a mask nor a weight of zero silences a NaN that an ended sequence left behind.
        is_other = ~self._is_seen.transpose(2, 3)
        keys, values = (
            side[self.tokens.slots, :, : self._span].masked_fill(is_other, 0.0) for side in self.cache.layer(layer)
        )
        mixed = scaled_dot_product_attention(
            q[:, :, None], keys, values, attn_mask=self._is_seen, enable_gqa=q.shape[1] != keys.shape[1]
        )
        return mixed.flatten(1)


class ExtendTwin:
    """Several new tokens for each slot; lengths are read from the host's *extensions*."""

    def __init__(self, cache: SlotCache, tokens: SlotTokens, extensions: Sequence[Extension]) -> None:
        self.cache, self.tokens, self.extensions = cache, tokens, extensions

    def __call__(self, layer: int, qkv: Tensor, q_norm: Tensor | None, k_norm: Tensor | None) -> Tensor:
        """*qkv* [T, (H + 2·H_kv)·D] → mixed values [T, H·D]; rows of no extension are zero."""
        assert q_norm is None
        assert k_norm is None
        q = _rotate_and_store(self.cache, layer, qkv, self.tokens)
        keys, values = self.cache.layer(layer)
        out = torch.zeros_like(q)
        for part in self.extensions:
            num_new = part.end - part.start
            num_all = part.length + num_new
            mask = torch.ones(num_new, num_all, dtype=torch.bool, device=q.device).tril(part.length)
            mixed = scaled_dot_product_attention(
                q[None, part.start : part.end].transpose(1, 2),
                keys[None, part.slot, :, :num_all],
                values[None, part.slot, :, :num_all],
                attn_mask=mask,
                enable_gqa=q.shape[1] != keys.shape[1],
            )
            out[part.start : part.end] = mixed[0].transpose(0, 1)
        return out.flatten(1)


def _rotate_and_store(cache: SlotCache, layer: int, qkv: Tensor, tokens: SlotTokens) -> Tensor:
    """Write the keys and values of *qkv* into the slots; returns the rotated queries [T, H, D]."""
    q, k, v = split_heads(qkv, cache.heads)
    q, k = rotate(q, tokens.cos, tokens.sin), rotate(k, tokens.cos, tokens.sin)
    keys, values = cache.layer(layer)
    keys[tokens.slots, :, tokens.lengths] = k
    values[tokens.slots, :, tokens.lengths] = v
    return q


def split_heads(qkv: Tensor, heads: HeadSizes) -> tuple[Tensor, Tensor, Tensor]:
    """Queries [T, H, D], keys and values [T, H_kv, D] of a stacked projection."""
    rows = qkv.view(len(qkv), -1, heads.head_dim)
    end = heads.num_heads + heads.num_kv_heads
    return rows[:, : heads.num_heads], rows[:, heads.num_heads : end], rows[:, end:]


class KernelAttends(Protocol):
    """The Triton twins over one cache."""

    def decode(self, tokens: SlotTokens) -> StackedAttend: ...

    def extend(self, tokens: SlotTokens) -> StackedAttend: ...


def load_kernels(cache: SlotCache, max_tokens: int) -> KernelAttends | None:
    """The kernels for launches of at most *max_tokens* tokens, or None without Triton."""
    if not has_triton():
        return None
    # Imported here: a machine without Triton must be able to import this module.
    from antiphon.layers.kernels.slot_attention import SlotKernels

    return SlotKernels(cache, max_tokens)
