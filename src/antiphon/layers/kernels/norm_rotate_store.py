"""Triton: per-head q/k norms, rotary embedding and the write into the paged cache, in one launch.

Plain torch takes about fifteen launches a layer for the same work, as much time as the attention itself.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.layers.paged_batch import PagedBatch


@triton.jit  # type: ignore[untyped-decorator]
def _norm_rotate_store(  # type: ignore[no-untyped-def]
    qkv,
    q_out,
    k_cache,
    v_cache,
    kv_index,
    cos,
    sin,
    q_weight,
    k_weight,
    eps,
    NUM_HEADS: tl.constexpr,
    NUM_KV_HEADS: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK: tl.constexpr,
    HAS_NORM: tl.constexpr,
):
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    HEAD_DIM: tl.constexpr = 2 * HALF
    offsets = tl.arange(0, BLOCK)
    inside = offsets < HALF
    source = qkv + (token * (NUM_HEADS + 2 * NUM_KV_HEADS) + head) * HEAD_DIM + offsets
    first = tl.load(source, mask=inside, other=0.0)
    second = tl.load(source + HALF, mask=inside, other=0.0)
    row = tl.load(kv_index + token)
    if head >= NUM_HEADS + NUM_KV_HEADS:
        target = v_cache + (row * NUM_KV_HEADS + head - NUM_HEADS - NUM_KV_HEADS) * HEAD_DIM + offsets
        tl.store(target, first, mask=inside)
        tl.store(target + HALF, second, mask=inside)
    else:
        a, b = first.to(tl.float32), second.to(tl.float32)
        if HAS_NORM:
            scale = tl.rsqrt((tl.sum(a * a, 0) + tl.sum(b * b, 0)) / HEAD_DIM + eps)
            weight = q_weight + offsets
            if head >= NUM_HEADS:
                weight = k_weight + offsets
            a = a * scale * tl.load(weight, mask=inside, other=0.0).to(tl.float32)
            b = b * scale * tl.load(weight + HALF, mask=inside, other=0.0).to(tl.float32)
        c = tl.load(cos + token * HEAD_DIM + offsets, mask=inside, other=0.0)
        s = tl.load(sin + token * HEAD_DIM + offsets, mask=inside, other=0.0)
        target = q_out + (token * NUM_HEADS + head) * HEAD_DIM + offsets
        if head >= NUM_HEADS:
            target = k_cache + (row * NUM_KV_HEADS + head - NUM_HEADS) * HEAD_DIM + offsets
        tl.store(target, (a * c - b * s).to(q_out.dtype.element_ty), mask=inside)
        tl.store(target + HALF, (b * c + a * s).to(q_out.dtype.element_ty), mask=inside)


def norm_rotate_store(
    qkv: Tensor,
    keys: Tensor,
    values: Tensor,
    batch: PagedBatch,
    q_norm: Tensor | None,
    k_norm: Tensor | None,
    eps: float,
) -> Tensor:
    """Write the keys and values of *qkv* [T, (H + 2·H_kv)·D] to *keys*, *values* [blocks, block_size, H_kv, D].

    Returns:
        The normed and rotated queries, [T, H, D].
    """
    num_tokens = qkv.shape[0]
    num_kv_heads, head_dim = keys.shape[2:]
    num_heads = qkv.shape[1] // head_dim - 2 * num_kv_heads
    q = torch.empty(num_tokens, num_heads, head_dim, dtype=qkv.dtype, device=qkv.device)
    _norm_rotate_store[(num_tokens, num_heads + 2 * num_kv_heads)](
        qkv,
        q,
        keys,
        values,
        batch.kv_index,
        batch.cos,
        batch.sin,
        qkv if q_norm is None else q_norm,
        qkv if k_norm is None else k_norm,
        eps,
        NUM_HEADS=num_heads,
        NUM_KV_HEADS=num_kv_heads,
        HALF=head_dim // 2,
        BLOCK=triton.next_power_of_2(head_dim // 2),
        HAS_NORM=q_norm is not None,
        num_warps=1,
    )
    return q
