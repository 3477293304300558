"""Triton: the first draw of a duplex decision, one pass over the logits.

The twin, `vocabulary_race.race`, makes some thirty passes over [B, 151,748] numbers of 64 bits.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 4096
_NEVER = tl.constexpr(float("-inf"))


@triton.jit
def _mix(x):  # type: ignore[no-untyped-def]
    """`counter_rng`'s avalanche of 32 bits, in wrapping arithmetic of 32 bits."""
    x = x ^ (x >> 16)
    x = x * 0x85EBCA6B
    x = x ^ (x >> 13)
    x = x * 0xC2B2AE35
    return x ^ (x >> 16)


@triton.jit  # type: ignore[untyped-decorator]
def _race(  # type: ignore[no-untyped-def]
    logits, row_stride, seeds, steps, greedy, best_keys, best_ids, num_ids, num_blocks, BLOCK: tl.constexpr
):
    row, block = tl.program_id(0), tl.program_id(1)
    ids = block * BLOCK + tl.arange(0, BLOCK)
    inside = ids < num_ids
    keys = tl.load(logits + row.to(tl.int64) * row_stride + ids, mask=inside, other=_NEVER).to(tl.float32)
    if tl.load(greedy + row) == 0:
        seed, step = tl.load(seeds + row), tl.load(steps + row)
        high, low = ((seed >> 32) & 0xFFFFFFFF).to(tl.uint32), (seed & 0xFFFFFFFF).to(tl.uint32)
        key = _mix((step & 0xFFFFFFFF).to(tl.uint32) ^ _mix(low ^ _mix(high ^ 0x9E3779B9)))
        index = ids.to(tl.uint32)
        bits = _mix(index ^ _mix(key + index * 0x9E3779B1))
        uniform = tl.minimum((bits.to(tl.float32) + 0.5) * 2.3283064365386963e-10, 0.9999999403953552)
        # −log(1 − u) by its series where 1 − u would round away what decides the race.
        series = uniform * (1.0 + uniform * (0.5 + uniform * (0.3333333333333333 + uniform * 0.25)))
        keys -= tl.log(tl.where(uniform < 0.01, series, -tl.log(1.0 - uniform)))
    best, place = tl.max(keys, 0, return_indices=True, return_indices_tie_break_left=True)
    tl.store(best_keys + row * num_blocks + block, best)
    tl.store(best_ids + row * num_blocks + block, tl.minimum(block * BLOCK + place, num_ids - 1))


def race_kernel(logits: Tensor, seed: Tensor, step: Tensor, is_greedy: Tensor) -> Tensor:
    """Fast twin of `vocabulary_race.race`."""
    num_rows, num_ids = logits.shape
    num_blocks = triton.cdiv(num_ids, _BLOCK)
    assert logits.stride(1) == 1
    keys = torch.empty(num_rows, num_blocks, device=logits.device)
    ids = torch.empty(num_rows, num_blocks, dtype=torch.int64, device=logits.device)
    _race[(num_rows, num_blocks)](
        logits,
        logits.stride(0),
        seed,
        step,
        is_greedy,
        keys,
        ids,
        num_ids,
        num_blocks,
        BLOCK=_BLOCK,
        num_warps=8,
    )
    return ids.gather(1, keys.argmax(-1, keepdim=True))[:, 0]
