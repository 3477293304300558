"""Triton: matrix products of a few rows with what stands around them, for decode steps that only wait for weights.

A step of one row reads each weight once and does next to nothing with it, so time goes to launches and to the start of
every one of them. Norm, product and activation are one launch here, product and residual another; the twin is
`StackedDecoder`, whose roundings are kept: only the order of sums differs.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

_ROWS = 16  # the smallest tile of a tensor core, and the most rows: beyond, library kernels are as good
_BLOCK_N = 16
_BLOCK_K = 128
_MAX_SPLITS = 8
_WARPS, _STAGES = 2, 4


@triton.jit  # type: ignore[untyped-decorator]
def _norm_product(  # type: ignore[no-untyped-def]
    x,
    norm,
    weight,
    out,
    num_rows,
    eps,
    K: tl.constexpr,
    N: tl.constexpr,
    HAS_GATE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """rms_norm(x) @ weight.T; with a gate the first N outputs of *weight* gate the second N through SiLU."""
    element = out.dtype.element_ty
    rows = tl.arange(0, BLOCK_M)
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    is_row, is_column = rows < num_rows, columns < N
    inner = tl.arange(0, BLOCK_K)
    squares = tl.zeros((BLOCK_M,), tl.float32)
    for start in tl.static_range(0, K, BLOCK_K):
        k = start + inner
        mask = is_row[:, None] & (k < K)[None, :]
        wide = tl.load(x + rows[:, None] * K + k[None, :], mask=mask, other=0.0).to(tl.float32)
        squares += tl.sum(wide * wide, 1)
    scale = tl.rsqrt(squares / K + eps)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    gate = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for place in tl.range(0, K, BLOCK_K):
        at = place + inner
        is_inner = at < K
        w_mask = is_column[:, None] & is_inner[None, :]
        lines = weight + columns[:, None] * K + at[None, :]
        if HAS_GATE:
            gate_tile = tl.load(lines, mask=w_mask, other=0.0)
            tile = tl.load(lines + N * K, mask=w_mask, other=0.0)
        else:
            tile = tl.load(lines, mask=w_mask, other=0.0)
        part = tl.load(x + rows[:, None] * K + at[None, :], mask=is_row[:, None] & is_inner[None, :], other=0.0)
        by_norm = tl.load(norm + at, mask=is_inner, other=0.0).to(tl.float32)
        normed = (part.to(tl.float32) * scale[:, None] * by_norm[None, :]).to(element)
        total = tl.dot(normed, tile.T, total, input_precision=PRECISION)
        if HAS_GATE:
            gate = tl.dot(normed, gate_tile.T, gate, input_precision=PRECISION)
    if HAS_GATE:
        opened = gate.to(element).to(tl.float32)
        opened = (opened / (1.0 + tl.exp(-opened))).to(element).to(tl.float32)
        total = opened * total.to(element).to(tl.float32)
    result = out + rows[:, None] * N + columns[None, :]
    tl.store(result, total.to(element), mask=is_row[:, None] & is_column[None, :])


@triton.jit  # type: ignore[untyped-decorator]
def _add_product(  # type: ignore[no-untyped-def]
    x,
    inner_rows,
    weight,
    partial,
    arrived,
    num_rows,
    K: tl.constexpr,
    N: tl.constexpr,
    NUM_SPLITS: tl.constexpr,
    SHARE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """x += inner_rows @ weight.T. The sum over K is split; the program that arrives last adds the parts, in order."""
    element = x.dtype.element_ty
    tile_id = tl.program_id(0)
    split = tl.program_id(1)
    rows = tl.arange(0, BLOCK_M)
    columns = tile_id * BLOCK_N + tl.arange(0, BLOCK_N)
    is_row, is_column = rows < num_rows, columns < N
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in tl.range(0, SHARE, BLOCK_K):
        k = split * SHARE + start + tl.arange(0, BLOCK_K)
        is_inner = k < tl.minimum(K, (split + 1) * SHARE)
        w_mask = is_column[:, None] & is_inner[None, :]
        tile = tl.load(weight + columns[:, None] * K + k[None, :], mask=w_mask, other=0.0)
        mask = is_row[:, None] & is_inner[None, :]
        part = tl.load(inner_rows + rows[:, None] * K + k[None, :], mask=mask, other=0.0)
        total = tl.dot(part, tile.T, total, input_precision=PRECISION)
    place = x + rows[:, None] * N + columns[None, :]
    is_place = is_row[:, None] & is_column[None, :]
    if NUM_SPLITS == 1:
        kept = tl.load(place, mask=is_place, other=0.0).to(tl.float32)
        tl.store(place, (kept + total).to(element), mask=is_place)
    else:
        cells = rows[:, None] * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
        parts = partial + tile_id * NUM_SPLITS * BLOCK_M * BLOCK_N
        tl.store(parts + split * BLOCK_M * BLOCK_N + cells, total)
        tl.debug_barrier()  # all threads' parts are written before the one that counts announces them
        if tl.atomic_add(arrived + tile_id, 1, sem="acq_rel") == NUM_SPLITS - 1:
            tl.store(arrived + tile_id, 0)
            joined = tl.load(place, mask=is_place, other=0.0).to(tl.float32)
            for index in tl.static_range(NUM_SPLITS):
                # .cg: the first-level cache of this multiprocessor may hold a former launch's parts.
                joined += tl.load(parts + index * BLOCK_M * BLOCK_N + cells, cache_modifier=".cg")
            tl.store(place, joined.to(element), mask=is_place)


class FewRowsKernels:
    """The products of one decoder on one stream, for launches of at most `max_rows` rows.

    `partial` and `arrived` are where the splits of a launch meet.
    """

    max_rows = _ROWS

    def __init__(self, hidden_size: int, *, device: torch.device) -> None:
        num_tiles = triton.cdiv(hidden_size, _BLOCK_N)
        self.partial = torch.empty(num_tiles * _MAX_SPLITS * _ROWS * _BLOCK_N, device=device)
        self.arrived = torch.zeros(num_tiles, dtype=torch.int32, device=device)

    def norm_product(self, x: Tensor, norm: Tensor, weight: Tensor, eps: float) -> Tensor:
        """*x* [T, K], normed by *norm* [K], times *weight* [N, K] → [T, N]."""
        return self._norm_product(x, norm, weight, eps, num_columns=len(weight), has_gate=False)

    def norm_gated_product(self, x: Tensor, norm: Tensor, gate_up: Tensor, eps: float) -> Tensor:
        """As `norm_product` with *gate_up* [2·N, K] → silu(gate) · up, [T, N]."""
        return self._norm_product(x, norm, gate_up, eps, num_columns=len(gate_up) // 2, has_gate=True)

    def _norm_product(
        self, x: Tensor, norm: Tensor, weight: Tensor, eps: float, *, num_columns: int, has_gate: bool
    ) -> Tensor:
        out = torch.empty(len(x), num_columns, dtype=x.dtype, device=x.device)
        _norm_product[(triton.cdiv(num_columns, _BLOCK_N),)](
            x,
            norm,
            weight,
            out,
            len(x),
            eps,
            K=x.shape[1],
            N=num_columns,
            HAS_GATE=has_gate,
            BLOCK_M=_ROWS,
            BLOCK_N=_BLOCK_N,
            BLOCK_K=_block_k(x.shape[1]),
            PRECISION="ieee",
            num_warps=_WARPS,
            num_stages=_STAGES,
        )
        return out

    def add_product(self, x: Tensor, inner: Tensor, weight: Tensor) -> Tensor:
        """Add *inner* [T, K] times *weight* [N, K] to *x* [T, N], in place; returns *x*."""
        size = inner.shape[1]
        block_k = _block_k(size)
        # A short sum is faster whole: its parts would cost more to meet than to wait for.
        num_splits = min(_MAX_SPLITS, triton.cdiv(size, block_k)) if size > 1024 else 1
        share = triton.cdiv(triton.cdiv(size, num_splits), block_k) * block_k
        num_splits = triton.cdiv(size, share)
        _add_product[(triton.cdiv(x.shape[1], _BLOCK_N), num_splits)](
            x,
            inner,
            weight,
            self.partial,
            self.arrived,
            len(x),
            K=size,
            N=x.shape[1],
            NUM_SPLITS=num_splits,
            SHARE=share,
            BLOCK_M=_ROWS,
            BLOCK_N=_BLOCK_N,
            BLOCK_K=block_k,
            PRECISION="ieee",
            num_warps=_WARPS,
            num_stages=_STAGES,
        )
        return x


def _block_k(size: int) -> int:
    return int(max(_ROWS, min(_BLOCK_K, triton.next_power_of_2(size))))
