"""Triton: attention of the flow's new frames over their stream's cache, read in place.

One launch norms queries and keys and stores keys and values, one attends, and where caches are split between programs
one more combines. What a stream sees is read from device memory and every grid depends on sizes only, so launches can
be captured. The twin, `attend` of the blocks in `models/code2wav/batched/solver.py`, copies each slot's entries.
"""

import triton
import triton.language as tl
from torch import Tensor

from antiphon.layers.flow_rows import FlowPlaces

_LOG2_E = 1.4426950408889634
_NUM_PROGRAMS = 264  # two for each of an H200's 132 multiprocessors
_MAX_SPLITS = 8
_MIN_DOT = 16  # the smallest side of a matrix product
_TILE = 32  # cache entries of one pass; more would not fit in registers without TF32
_NUM_WARPS = 4
_NUM_STAGES = 5  # loads run two tiles ahead; what they are masked by runs as far ahead of them


@triton.jit  # type: ignore[untyped-decorator]
def _normed(x, scale, shift, eps, in_dims, HEAD_DIM: tl.constexpr):  # type: ignore[no-untyped-def]
    """LayerNorm of each line of *x* [heads, dims]."""
    centred = tl.where(in_dims[None, :], x - tl.sum(x, 1)[:, None] / HEAD_DIM, 0.0)
    variance = tl.sum(centred * centred, 1) / HEAD_DIM
    return centred * tl.rsqrt(variance + eps)[:, None] * scale[None, :] + shift[None, :]


@triton.jit  # type: ignore[untyped-decorator]
def _norm_store(  # type: ignore[no-untyped-def]
    qkv,
    scale,
    shift,
    cache,
    slots,
    writes,
    cache_size,
    eps,
    NUM_HEADS: tl.constexpr,
    HEAD_BLOCK: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    DIM_BLOCK: tl.constexpr,
):
    guidance = tl.program_id(0)
    stream = tl.program_id(2)
    frame = (stream * tl.num_programs(1) + tl.program_id(1)).to(tl.int64)
    heads = tl.arange(0, HEAD_BLOCK)
    dims = tl.arange(0, DIM_BLOCK)
    in_dims = dims < HEAD_DIM
    mask = (heads < NUM_HEADS)[:, None] & in_dims[None, :]
    lines = ((frame * 2 + guidance) * NUM_HEADS + heads) * 3 * HEAD_DIM
    source = qkv + lines[:, None] + dims[None, :]
    q = tl.load(source, mask=mask, other=0.0)
    k = tl.load(source + HEAD_DIM, mask=mask, other=0.0)
    v = tl.load(source + 2 * HEAD_DIM, mask=mask, other=0.0)
    entries = ((tl.load(slots + stream) * 2 + guidance) * NUM_HEADS + heads) * cache_size + tl.load(writes + frame)
    target = cache + entries[:, None] * 2 * HEAD_DIM + dims[None, :]
    q_scale = tl.load(scale + dims, mask=in_dims, other=0.0)
    q_shift = tl.load(shift + dims, mask=in_dims, other=0.0)
    k_scale = tl.load(scale + HEAD_DIM + dims, mask=in_dims, other=0.0)
    k_shift = tl.load(shift + HEAD_DIM + dims, mask=in_dims, other=0.0)
    tl.store(source, _normed(q, q_scale, q_shift, eps, in_dims, HEAD_DIM), mask=mask)
    tl.store(target, _normed(k, k_scale, k_shift, eps, in_dims, HEAD_DIM), mask=mask)
    tl.store(target + HEAD_DIM, v, mask=mask)


@triton.jit(do_not_specialize=["num_frames"])  # type: ignore[untyped-decorator]
def _attend(  # type: ignore[no-untyped-def]
    qkv,
    cache,
    slots,
    seen,
    ends,
    out,
    lse,
    num_frames,
    scale,
    cache_size,
    NUM_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    DIM_BLOCK: tl.constexpr,
    QUERIES: tl.constexpr,
    TILE: tl.constexpr,
    NUM_SPLITS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    split = tl.program_id(0) % NUM_SPLITS
    frames = tl.program_id(0) // NUM_SPLITS * QUERIES + tl.arange(0, QUERIES)
    head = tl.program_id(1)
    stream = tl.program_id(2)
    dims = tl.arange(0, DIM_BLOCK)
    in_dims = dims < HEAD_DIM
    mask = (frames < num_frames)[:, None] & in_dims[None, :]
    lines = (stream * num_frames + frames).to(tl.int64) * NUM_HEADS + head
    q = tl.load(qkv + lines[:, None] * 3 * HEAD_DIM + dims[None, :], mask=mask, other=0.0)
    end = tl.load(ends + stream)
    share = tl.cdiv(tl.cdiv(end, NUM_SPLITS), TILE) * TILE
    first = split * share
    stop = tl.minimum(first + share, end)
    entries = cache + (tl.load(slots + stream) * NUM_HEADS + head) * cache_size * 2 * HEAD_DIM
    top = tl.full((QUERIES,), float("-inf"), tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    mixed = tl.zeros((QUERIES, DIM_BLOCK), tl.float32)
    for tile in range(first, stop, TILE):
        places = tile + tl.arange(0, TILE)
        counts = tl.load(seen + stream * cache_size + places, mask=places < stop, other=0) != 0
        kv = entries + places[:, None] * 2 * HEAD_DIM + dims[None, :]
        # Masked loads give zeros: what no frame sees may be anything, even NaN of an earlier stream.
        kv_mask = counts[:, None] & in_dims[None, :]
        keys = tl.load(kv, mask=kv_mask, other=0.0)
        values = tl.load(kv + HEAD_DIM, mask=kv_mask, other=0.0)
        scores = tl.dot(q, tl.trans(keys), input_precision=PRECISION) * scale
        scores = tl.where(counts[None, :], scores, float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, 1))
        base = tl.where(new_top == float("-inf"), 0.0, new_top)  # nothing seen so far
        fade = tl.exp2(top - base)
        weights = tl.exp2(scores - base[:, None])
        mixed = mixed * fade[:, None] + tl.dot(weights, values, input_precision=PRECISION)
        total = total * fade + tl.sum(weights, 1)
        top = new_top
    total = tl.where(total == 0.0, 1.0, total)
    targets = lines * NUM_SPLITS + split
    tl.store(out + targets[:, None] * HEAD_DIM + dims[None, :], mixed / total[:, None], mask=mask)
    if NUM_SPLITS > 1:
        tl.store(lse + targets, top + tl.log2(total), mask=frames < num_frames)


@triton.jit  # type: ignore[untyped-decorator]
def _combine(  # type: ignore[no-untyped-def]
    parts,
    lse,
    out,
    HEAD_DIM: tl.constexpr,
    DIM_BLOCK: tl.constexpr,
    NUM_SPLITS: tl.constexpr,
):
    line = tl.program_id(0).to(tl.int64)
    splits = tl.arange(0, NUM_SPLITS)
    dims = tl.arange(0, DIM_BLOCK)
    logs = tl.load(lse + line * NUM_SPLITS + splits)
    weights = tl.exp2(logs - tl.max(logs, 0))
    lines = (line * NUM_SPLITS + splits) * HEAD_DIM
    mixed = tl.load(parts + lines[:, None] + dims[None, :], mask=(dims < HEAD_DIM)[None, :], other=0.0)
    mixed = tl.sum(mixed * weights[:, None], 0) / tl.sum(weights, 0)
    tl.store(out + line * HEAD_DIM + dims, mixed, mask=dims < HEAD_DIM)


def norm_store(qkv: Tensor, scale: Tensor, shift: Tensor, eps: float, cache: Tensor, places: FlowPlaces) -> None:
    """Norm queries and keys of *qkv* [B, T, 2, H, 3, D]; queries stay there, keys and values go to *cache*.

    Args:
        scale: of queries and keys, [2, D], like *shift*.
        cache: [S, 2, H, C, 2, D].
    """
    _, num_guidance, num_heads, cache_size, _, head_dim = cache.shape
    assert num_guidance == 2
    assert qkv.is_contiguous()
    assert cache.is_contiguous()
    _norm_store[(2, qkv.shape[1], qkv.shape[0])](
        qkv,
        scale,
        shift,
        cache,
        places.slots,
        places.writes,
        cache_size,
        eps,
        NUM_HEADS=num_heads,
        HEAD_BLOCK=triton.next_power_of_2(num_heads),
        HEAD_DIM=head_dim,
        DIM_BLOCK=triton.next_power_of_2(head_dim),
        num_warps=4,
    )


def num_splits(num_programs: int) -> int:
    """Parts that a cache is split into, a power of two: enough programs to fill the device."""
    wanted = max(1, _NUM_PROGRAMS // num_programs)
    return min(_MAX_SPLITS, 1 << (wanted.bit_length() - 1))


def attend(qkv: Tensor, cache: Tensor, places: FlowPlaces, *, tf32: bool) -> Tensor:
    """What the queries of *qkv* find in *cache* after `norm_store`: [B, T, 2, H · D].

    Args:
        tf32: compute products in TF32; otherwise in float32.
    """
    num_streams, num_frames = qkv.shape[:2]
    _, num_guidance, num_heads, cache_size, _, head_dim = cache.shape
    num_lines = num_guidance * num_heads  # guidance rows count as further heads
    # In TF32 a warp takes 16 queries; float32 products have no tensor cores, and more queries would not fit.
    queries = 64 if tf32 else 32
    num_blocks = triton.cdiv(num_frames, queries)
    splits = num_splits(num_blocks * num_lines * num_streams)
    out = qkv.new_empty(num_streams, num_frames, num_guidance, num_heads * head_dim)
    parts = out if splits == 1 else qkv.new_empty(num_streams, num_frames, num_lines, splits, head_dim)
    lse = out if splits == 1 else qkv.new_empty(num_streams, num_frames, num_lines, splits)
    dim_block = max(_MIN_DOT, triton.next_power_of_2(head_dim))
    _attend[(num_blocks * splits, num_lines, num_streams)](
        qkv,
        cache,
        places.slots,
        places.seen,
        places.ends,
        parts,
        lse,
        num_frames,
        head_dim**-0.5 * _LOG2_E,
        cache_size,
        NUM_HEADS=num_lines,
        HEAD_DIM=head_dim,
        DIM_BLOCK=dim_block,
        QUERIES=queries,
        TILE=_TILE,
        NUM_SPLITS=splits,
        PRECISION="tf32" if tf32 else "ieee",
        num_warps=_NUM_WARPS,
        num_stages=_NUM_STAGES,
    )
    if splits > 1:
        _combine[(num_streams * num_frames * num_lines,)](
            parts,
            lse,
            out,
            HEAD_DIM=head_dim,
            DIM_BLOCK=triton.next_power_of_2(head_dim),
            NUM_SPLITS=splits,
            num_warps=1,
        )
    return out
