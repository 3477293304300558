"""One draw from the bare softmax of each row over a whole vocabulary: a Triton kernel, and its torch twin elsewhere."""

import torch
from torch import Tensor

from antiphon.layers.counter_rng import exponential_race


def race(logits: Tensor, seed: Tensor, step: Tensor, is_greedy: Tensor, *, use_kernels: bool) -> Tensor:
    """Draw an id from each row of *logits* [B, V] by its softmax; rows with *is_greedy* [B] take the first largest.

    Keyed by *seed* and *step* [B] int64, as `exponential_race`. The kernel races logarithms, so that no softmax is
    needed: the same draws up to rounding. Returns [B] int64.
    """
    if use_kernels:
        # Imported here: a machine without Triton must be able to import this module.
        from antiphon.layers.kernels.vocabulary_race import race_kernel

        return race_kernel(logits, seed, step, is_greedy)
    wide = logits.float()
    return torch.where(is_greedy, wide.argmax(-1), exponential_race(wide.softmax(-1), seed, step))
