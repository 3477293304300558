"""Triton: attention over paged keys and values, for rows of one new token (split over the context) and of several.

Lengths and block tables are read from device memory and every grid depends on sizes only, so that a launch can be
captured once and replayed while contexts grow.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.layers.paged_batch import PagedBatch

_LOG2_E = 1.4426950408889634
_NUM_PROGRAMS = 512  # about four for each of an H200's 132 multiprocessors
_MAX_SPLITS = 32
_MIN_DOT = 16  # the smallest side of a matrix product


# Table widths and row counts change from step to step: specialised for them, a kernel would be compiled in between.
@triton.jit(do_not_specialize=["table_stride"])  # type: ignore[untyped-decorator]
def _decode_split(  # type: ignore[no-untyped-def]
    q,
    k_cache,
    v_cache,
    tables,
    context_lens,
    partial,
    partial_lse,
    scale,
    table_stride,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_BLOCK: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    DIM_BLOCK: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    TILE: tl.constexpr,
    NUM_SPLITS: tl.constexpr,
):
    row = tl.program_id(0)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    context = tl.load(context_lens + row)
    share = tl.cdiv(tl.cdiv(context, NUM_SPLITS), TILE) * TILE
    start = split * share
    end = tl.minimum(start + share, context)
    group = tl.arange(0, GROUP_BLOCK)
    dims = tl.arange(0, DIM_BLOCK)
    in_group = group < GROUP
    in_dims = dims < HEAD_DIM
    heads = row * NUM_KV_HEADS * GROUP + kv_head * GROUP + group
    mask = in_group[:, None] & in_dims[None, :]
    queries = tl.load(q + heads[:, None] * HEAD_DIM + dims[None, :], mask=mask, other=0.0)
    top = tl.full((GROUP_BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((GROUP_BLOCK,), tl.float32)
    mixed = tl.zeros((GROUP_BLOCK, DIM_BLOCK), tl.float32)
    for tile in range(start, end, TILE):
        places = tile + tl.arange(0, TILE)
        seen = places < end
        block = tl.load(tables + row * table_stride + places // BLOCK_SIZE, mask=seen, other=0).to(tl.int64)
        lines = ((block * BLOCK_SIZE + places % BLOCK_SIZE) * NUM_KV_HEADS + kv_head) * HEAD_DIM
        # Masked loads give zeros: what stands past the end may be anything, even NaN of an ended sequence.
        kv_mask = seen[:, None] & in_dims[None, :]
        keys = tl.load(k_cache + lines[:, None] + dims[None, :], mask=kv_mask, other=0.0)
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
        scores = tl.where(seen[None, :], scores, float("-inf"))
        new_top = tl.maximum(top, tl.max(scores, 1))
        fade = tl.exp2(top - new_top)
        weights = tl.exp2(scores - new_top[:, None])
        values = tl.load(v_cache + lines[:, None] + dims[None, :], mask=kv_mask, other=0.0)
        mixed = mixed * fade[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
        total = total * fade + tl.sum(weights, 1)
        top = new_top
    total = tl.where(total == 0.0, 1.0, total)  # a split past the context: −inf below, and left out by the combination
    mixed = mixed / total[:, None]
    target = heads * NUM_SPLITS + split
    tl.store(partial_lse + target, top + tl.log2(total), mask=in_group)
    tl.store(partial + target[:, None] * HEAD_DIM + dims[None, :], mixed, mask=mask)


@triton.jit  # type: ignore[untyped-decorator]
def _decode_combine(  # type: ignore[no-untyped-def]
    partial,
    partial_lse,
    out,
    HEAD_DIM: tl.constexpr,
    DIM_BLOCK: tl.constexpr,
    NUM_SPLITS: tl.constexpr,
):
    head = tl.program_id(0)
    splits = tl.arange(0, NUM_SPLITS)
    dims = tl.arange(0, DIM_BLOCK)
    lse = tl.load(partial_lse + head * NUM_SPLITS + splits)
    weights = tl.exp2(lse - tl.max(lse, 0))
    mask = (dims < HEAD_DIM)[None, :] & (lse > float("-inf"))[:, None]
    lines = (head * NUM_SPLITS + splits) * HEAD_DIM
    parts = tl.load(partial + lines[:, None] + dims[None, :], mask=mask, other=0.0)
    mixed = tl.sum(parts * weights[:, None], 0) / tl.sum(weights, 0)
    tl.store(out + head * HEAD_DIM + dims, mixed.to(out.dtype.element_ty), mask=dims < HEAD_DIM)


@triton.jit(do_not_specialize=["first_row", "table_stride"])  # type: ignore[untyped-decorator]
def _extend(  # type: ignore[no-untyped-def]
    q,
    k_cache,
    v_cache,
    tables,
    context_lens,
    query_start,
    out,
    first_row,
    scale,
    table_stride,
    NUM_KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    DIM_BLOCK: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    QUERIES: tl.constexpr,
    TILE: tl.constexpr,
):
    part = tl.program_id(0)
    head = tl.program_id(1)
    row = tl.program_id(2) + first_row
    start = tl.load(query_start + row)
    num_queries = tl.load(query_start + row + 1) - start
    if part * QUERIES < num_queries:
        context = tl.load(context_lens + row)
        kv_head = head // GROUP
        asked = part * QUERIES + tl.arange(0, QUERIES)
        dims = tl.arange(0, DIM_BLOCK)
        in_dims = dims < HEAD_DIM
        mask = (asked < num_queries)[:, None] & in_dims[None, :]
        tokens = (start + asked).to(tl.int64)
        lines = (tokens * NUM_KV_HEADS * GROUP + head) * HEAD_DIM
        queries = tl.load(q + lines[:, None] + dims[None, :], mask=mask, other=0.0)
        places_of_queries = context - num_queries + asked
        top = tl.full((QUERIES,), float("-inf"), tl.float32)
        total = tl.zeros((QUERIES,), tl.float32)
        mixed = tl.zeros((QUERIES, DIM_BLOCK), tl.float32)
        end = tl.minimum(context, context - num_queries + (part + 1) * QUERIES)
        for tile in range(0, end, TILE):
            places = tile + tl.arange(0, TILE)
            exists = places < end
            block = tl.load(tables + row * table_stride + places // BLOCK_SIZE, mask=exists, other=0).to(tl.int64)
            kv_lines = ((block * BLOCK_SIZE + places % BLOCK_SIZE) * NUM_KV_HEADS + kv_head) * HEAD_DIM
            kv_mask = exists[:, None] & in_dims[None, :]
            keys = tl.load(k_cache + kv_lines[:, None] + dims[None, :], mask=kv_mask, other=0.0)
            scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
            seen = exists[None, :] & (places[None, :] <= places_of_queries[:, None])
            scores = tl.where(seen, scores, float("-inf"))
            # Every query sees position 0, so its maximum is finite from the first tile on.
            new_top = tl.maximum(top, tl.max(scores, 1))
            fade = tl.exp2(top - new_top)
            weights = tl.exp2(scores - new_top[:, None])
            values = tl.load(v_cache + kv_lines[:, None] + dims[None, :], mask=kv_mask, other=0.0)
            mixed = mixed * fade[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
            total = total * fade + tl.sum(weights, 1)
            top = new_top
        tl.store(out + lines[:, None] + dims[None, :], (mixed / total[:, None]).to(out.dtype.element_ty), mask=mask)


def num_splits(num_rows: int, num_kv_heads: int) -> int:
    """Parts the context of each row is split into: enough programs to fill the device, a power of two."""
    wanted = max(1, _NUM_PROGRAMS // (num_rows * num_kv_heads))
    return min(_MAX_SPLITS, 1 << (wanted.bit_length() - 1))


def attend_decodes(q: Tensor, keys: Tensor, values: Tensor, batch: PagedBatch, out: Tensor) -> None:
    """Rows of one token: *q*, *out* [num_decodes, H, D]; *keys*, *values* [blocks, block_size, H_kv, D]."""
    num_rows, num_heads, head_dim = q.shape
    _, block_size, num_kv_heads, _ = keys.shape
    splits, dim_block = num_splits(num_rows, num_kv_heads), max(_MIN_DOT, triton.next_power_of_2(head_dim))
    group = num_heads // num_kv_heads
    partial = torch.empty(num_rows, num_heads, splits, head_dim, dtype=torch.float32, device=q.device)
    partial_lse = torch.empty(num_rows, num_heads, splits, dtype=torch.float32, device=q.device)
    _decode_split[(num_rows, num_kv_heads, splits)](
        q,
        keys,
        values,
        batch.tables,
        batch.context_lens,
        partial,
        partial_lse,
        head_dim**-0.5 * _LOG2_E,
        batch.tables.stride(0),
        NUM_KV_HEADS=num_kv_heads,
        GROUP=group,
        GROUP_BLOCK=max(_MIN_DOT, triton.next_power_of_2(group)),
        HEAD_DIM=head_dim,
        DIM_BLOCK=dim_block,
        BLOCK_SIZE=block_size,
        TILE=32,
        NUM_SPLITS=splits,
        num_warps=4,
    )
    _decode_combine[(num_rows * num_heads,)](
        partial,
        partial_lse,
        out,
        HEAD_DIM=head_dim,
        DIM_BLOCK=dim_block,
        NUM_SPLITS=splits,
        num_warps=1,
    )


def attend_extends(q: Tensor, keys: Tensor, values: Tensor, batch: PagedBatch, out: Tensor) -> None:
    """Rows of several tokens: *q*, *out* [T, H, D] with the decode rows in front, which are left alone."""
    num_heads, head_dim = q.shape[1:]
    _, block_size, num_kv_heads, _ = keys.shape
    num_rows = len(batch.context_lens) - batch.num_decodes
    queries = 64 if batch.max_query_len > 32 else _MIN_DOT
    _extend[(triton.cdiv(batch.max_query_len, queries), num_heads, num_rows)](
        q,
        keys,
        values,
        batch.tables,
        batch.context_lens,
        batch.query_start,
        out,
        batch.num_decodes,
        head_dim**-0.5 * _LOG2_E,
        batch.tables.stride(0),
        NUM_KV_HEADS=num_kv_heads,
        GROUP=num_heads // num_kv_heads,
        HEAD_DIM=head_dim,
        DIM_BLOCK=max(_MIN_DOT, triton.next_power_of_2(head_dim)),
        BLOCK_SIZE=block_size,
        QUERIES=queries,
        TILE=32 if q.dtype == torch.float32 else 64,
        num_warps=4,
    )
