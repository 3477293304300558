"""Triton: rotary embedding, the write into a slot's cache and attention over it, one launch a layer for a decode step.

Lengths are read from device memory and the grid depends on sizes only, so that a launch can be captured once and
replayed while contexts grow. The context is split; programs without a share exit, and of the others the one that
arrives last combines the parts.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.layers.slot_attention import SlotTokens
from antiphon.layers.slot_cache import SlotCache

_NUM_PROGRAMS = 512  # about four for each of an H200's 132 multiprocessors
_MAX_SPLITS = 16
_TILE_TOKENS = 64


@triton.jit  # type: ignore[untyped-decorator]
def _rotated(row, first_head, cos, sin, offsets, inside, HEAD_DIM: tl.constexpr):  # type: ignore[no-untyped-def]
    """One head of a stacked projection, rotated with the roundings of the torch twin."""
    element = row.dtype.element_ty
    partner = tl.where(offsets < HEAD_DIM // 2, offsets + HEAD_DIM // 2, offsets - HEAD_DIM // 2)
    sign = tl.where(offsets < HEAD_DIM // 2, -1.0, 1.0)
    x = tl.load(row + first_head + offsets, mask=inside, other=0.0).to(tl.float32)
    turned = tl.load(row + first_head + partner, mask=inside, other=0.0).to(tl.float32) * sign
    c = tl.load(cos + offsets, mask=inside, other=0.0).to(element).to(tl.float32)
    s = tl.load(sin + offsets, mask=inside, other=0.0).to(element).to(tl.float32)
    straight = (x * c).to(element).to(tl.float32)
    return (straight + (turned * s).to(element).to(tl.float32)).to(element)


@triton.jit  # type: ignore[untyped-decorator]
def _store(  # type: ignore[no-untyped-def]
    qkv,
    keys,
    values,
    slots,
    lengths,
    cos,
    sin,
    slot_stride,
    head_stride,
    NUM_HEADS: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
):
    token = tl.program_id(0)
    kv_head = tl.program_id(1)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < HEAD_DIM
    row = qkv + token * (NUM_HEADS + 2 * NUM_KV_HEADS) * HEAD_DIM
    place = tl.load(slots + token) * slot_stride + kv_head * head_stride + tl.load(lengths + token) * HEAD_DIM
    angles = token * HEAD_DIM
    k = _rotated(row, (NUM_HEADS + kv_head) * HEAD_DIM, cos + angles, sin + angles, offsets, inside, HEAD_DIM)
    tl.store(keys + place + offsets, k, mask=inside)
    v = tl.load(row + (NUM_HEADS + NUM_KV_HEADS + kv_head) * HEAD_DIM + offsets, mask=inside, other=0.0)
    tl.store(values + place + offsets, v, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _attend(  # type: ignore[no-untyped-def]
    qkv,
    keys,
    values,
    slots,
    lengths,
    cos,
    sin,
    out,
    partial,
    arrived,
    scale,
    slot_stride,
    head_stride,
    NUM_HEADS: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK: tl.constexpr,
    TILE: tl.constexpr,
    NUM_SPLITS: tl.constexpr,
    IS_STORED: tl.constexpr,
):
    split = tl.program_id(0)
    head = tl.program_id(1)
    token = tl.program_id(2)
    length = tl.load(lengths + token).to(tl.int32)
    share = tl.cdiv(tl.cdiv(length + 1, NUM_SPLITS), TILE) * TILE  # the token's own entry is among them
    num_active = tl.cdiv(length + 1, share)
    if split < num_active:
        offsets = tl.arange(0, BLOCK)
        inside = offsets < HEAD_DIM
        kv_head = head // (NUM_HEADS // NUM_KV_HEADS)
        row = qkv + token * (NUM_HEADS + 2 * NUM_KV_HEADS) * HEAD_DIM
        cache = tl.load(slots + token) * slot_stride + kv_head * head_stride
        angles = token * HEAD_DIM
        q = _rotated(row, head * HEAD_DIM, cos + angles, sin + angles, offsets, inside, HEAD_DIM).to(tl.float32)
        q = q * scale
        top = tl.full((), float("-inf"), tl.float32)
        total = tl.full((), 0.0, tl.float32)
        mixed = tl.zeros((BLOCK,), tl.float32)
        end = tl.minimum(split * share + share, length)
        if IS_STORED:
            end = tl.minimum(split * share + share, length + 1)
        elif split == num_active - 1:
            k = _rotated(row, (NUM_HEADS + kv_head) * HEAD_DIM, cos + angles, sin + angles, offsets, inside, HEAD_DIM)
            v = tl.load(row + (NUM_HEADS + NUM_KV_HEADS + kv_head) * HEAD_DIM + offsets, mask=inside, other=0.0)
            if head % (NUM_HEADS // NUM_KV_HEADS) == 0:
                place = cache + length.to(tl.int64) * HEAD_DIM + offsets
                tl.store(keys + place, k, mask=inside)
                tl.store(values + place, v, mask=inside)
            top = tl.sum(q * k.to(tl.float32), 0)
            total = tl.full((), 1.0, tl.float32)
            mixed = v.to(tl.float32)
        for start in range(split * share, end, TILE):
            places = start + tl.arange(0, TILE)
            seen = places < end
            # Masked loads give zeros: what stands past the end may be anything, even NaN of an ended sequence.
            mask = seen[:, None] & inside[None, :]
            lines = cache + places[:, None].to(tl.int64) * HEAD_DIM + offsets[None, :]
            k_tile = tl.load(keys + lines, mask=mask, other=0.0).to(tl.float32)
            v_tile = tl.load(values + lines, mask=mask, other=0.0).to(tl.float32)
            scores = tl.where(seen, tl.sum(k_tile * q[None, :], 1), float("-inf"))
            new_top = tl.maximum(top, tl.max(scores, 0))
            fade = tl.exp(top - new_top)
            weights = tl.exp(scores - new_top)
            mixed = mixed * fade + tl.sum(v_tile * weights[:, None], 0)
            total = total * fade + tl.sum(weights, 0)
            top = new_top
        result = out + (token * NUM_HEADS + head) * HEAD_DIM + offsets
        if num_active == 1:
            tl.store(result, (mixed / total).to(out.dtype.element_ty), mask=inside)
        else:
            pair = token * NUM_HEADS + head
            parts = partial + pair * NUM_SPLITS * (BLOCK + 2)
            mine = parts + split * (BLOCK + 2)
            tl.store(mine + offsets, mixed)
            tl.store(mine + BLOCK, top)
            tl.store(mine + BLOCK + 1, total)
            tl.debug_barrier()  # all threads' parts are written before the one that counts announces them
            if tl.atomic_add(arrived + pair, 1, sem="acq_rel") == num_active - 1:
                tl.store(arrived + pair, 0)
                splits = tl.arange(0, NUM_SPLITS)
                exists = splits < num_active
                lines = parts + splits * (BLOCK + 2)
                # .cg: the first-level cache of this multiprocessor may hold a former launch's parts.
                tops = tl.load(lines + BLOCK, mask=exists, other=float("-inf"), cache_modifier=".cg")
                totals = tl.load(lines + BLOCK + 1, mask=exists, other=0.0, cache_modifier=".cg")
                mixes = tl.load(
                    lines[:, None] + offsets[None, :], mask=exists[:, None], other=0.0, cache_modifier=".cg"
                )
                weights = tl.exp(tops - tl.max(tops, 0))
                joined = tl.sum(mixes * weights[:, None], 0) / tl.sum(totals * weights, 0)
                tl.store(result, joined.to(out.dtype.element_ty), mask=inside)


class SlotKernels:
    """The kernels over one cache, for launches of at most *max_tokens* tokens on one stream.

    `partial` and `arrived` are where the splits of a launch meet.
    """

    def __init__(self, cache: SlotCache, max_tokens: int) -> None:
        heads, device = cache.heads, cache.pages.device
        self.cache = cache
        self.block = triton.next_power_of_2(heads.head_dim)
        pairs = max_tokens * heads.num_heads
        parts = max(pairs, _NUM_PROGRAMS)
        self.partial = torch.empty(parts, self.block + 2, dtype=torch.float32, device=device)
        self.arrived = torch.zeros(pairs, dtype=torch.int32, device=device)

    def num_splits(self, num_tokens: int) -> int:
        """Parts of a row's context, a power of two: enough programs to fill the device."""
        wanted = max(1, _NUM_PROGRAMS // (num_tokens * self.cache.heads.num_heads))
        return min(_MAX_SPLITS, 1 << (wanted.bit_length() - 1))

    def decode(self, tokens: SlotTokens) -> "SlotKernelAttend":
        """Fast twin of `DecodeTwin`."""
        return SlotKernelAttend(self, tokens, is_extension=False)

    def extend(self, tokens: SlotTokens) -> "SlotKernelAttend":
        """Fast twin of `ExtendTwin`.

        All keys are stored first and every token looks at the entries up to its own. Each token reads the cache by
        itself, so this is meant for conditions of up to a few hundred tokens.
        """
        return SlotKernelAttend(self, tokens, is_extension=True)


class SlotKernelAttend:
    """The kernels for the tokens of one launch."""

    def __init__(self, kernels: SlotKernels, tokens: SlotTokens, *, is_extension: bool) -> None:
        self.kernels, self.tokens, self.is_extension = kernels, tokens, is_extension

    def __call__(self, layer: int, qkv: Tensor, q_norm: Tensor | None, k_norm: Tensor | None) -> Tensor:
        """*qkv* [T, (H + 2·H_kv)·D] → mixed values [T, H·D]."""
        assert q_norm is None
        assert k_norm is None
        kernels, tokens = self.kernels, self.tokens
        heads, num_tokens, block = kernels.cache.heads, len(qkv), kernels.block
        keys, values = kernels.cache.layer(layer)
        out = torch.empty(num_tokens, heads.num_heads * heads.head_dim, dtype=qkv.dtype, device=qkv.device)
        where = (keys, values, tokens.slots, tokens.lengths, tokens.cos, tokens.sin)
        if self.is_extension:
            _store[(num_tokens, heads.num_kv_heads)](
                qkv,
                *where,
                keys.stride(0),
                keys.stride(1),
                NUM_HEADS=heads.num_heads,
                NUM_KV_HEADS=heads.num_kv_heads,
                HEAD_DIM=heads.head_dim,
                BLOCK=block,
                num_warps=1,
            )
        num_splits = kernels.num_splits(num_tokens)
        _attend[(num_splits, heads.num_heads, num_tokens)](
            qkv,
            *where,
            out,
            kernels.partial,
            kernels.arrived,
            heads.head_dim**-0.5,
            keys.stride(0),
            keys.stride(1),
            NUM_HEADS=heads.num_heads,
            NUM_KV_HEADS=heads.num_kv_heads,
            HEAD_DIM=heads.head_dim,
            BLOCK=block,
            TILE=_TILE_TOKENS,
            NUM_SPLITS=num_splits,
            IS_STORED=self.is_extension,
            num_warps=4,
        )
        return out
