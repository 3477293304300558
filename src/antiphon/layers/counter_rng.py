"""A random number generator without state: the number is a function of (seed, step, index).

Draws do not depend on batch, slot, window or capture, so a request with a seed gives the same tokens however it is run.
The mixing is murmur3's 32-bit finaliser, chained; integer arithmetic only, so every device gives the same bits.
"""

import torch
from torch import Tensor

_MASK = 0xFFFFFFFF
_UNIT = 2.0**-32
_BELOW_ONE = 1.0 - 2.0**-24  # the largest float32 below 1


def _mix(x: Tensor) -> Tensor:
    """Avalanche the low 32 bits of *x* int64. Products wrap modulo 2^64, whose low 32 bits are exact."""
    x = x ^ (x >> 16)
    x = (x * 0x85EBCA6B) & _MASK
    x = x ^ (x >> 13)
    x = (x * 0xC2B2AE35) & _MASK
    return x ^ (x >> 16)


def counter_uniform(seed: Tensor, step: Tensor, index: Tensor) -> Tensor:
    """Uniform numbers in (0, 1) for broadcast *seed*, *step* and *index*, all int64 and non-negative; float32."""
    key = _mix((seed & _MASK) ^ _mix(((seed >> 32) & _MASK) ^ 0x9E3779B9))
    key = _mix((step & _MASK) ^ key)
    bits = _mix((index & _MASK) ^ _mix((key + (index & _MASK) * 0x9E3779B1) & _MASK))
    return ((bits.to(torch.float32) + 0.5) * _UNIT).clamp(max=_BELOW_ONE)


def exponential_race(probs: Tensor, seed: Tensor, step: Tensor) -> Tensor:
    """Draw one index from each row of *probs* [B, V] (need not sum to one), keyed by *seed* and *step* [B] int64.

    Index i wins with probability p_i / Σp: the smallest of E_i / p_i with E_i exponential is such a draw. Zeros never
    win unless the whole row is zero. Returns [B] int64.
    """
    index = torch.arange(probs.shape[-1], device=probs.device)
    uniform = counter_uniform(seed[:, None], step[:, None], index[None, :])
    # log1p keeps the small values exact that decide the race.
    return (probs.float() / -torch.log1p(-uniform)).argmax(-1)


def counter_normal(seed: Tensor, step: Tensor, index: Tensor) -> Tensor:
    """Standard normal numbers for broadcast *seed*, *step* and *index* (int64), by Box–Muller; float32."""
    radius = torch.sqrt(-2.0 * torch.log(counter_uniform(seed, step, 2 * index)))
    return radius * torch.cos(2.0 * torch.pi * counter_uniform(seed, step, 2 * index + 1))
