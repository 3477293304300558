"""What every sampling rule is built of: penalties and filters on one row of scores, pure and without a host sync.

All take and return [V] float32. A filtered id has the score −inf.
"""

import torch
from torch import Tensor

NEVER = float("-inf")


def penalise_present(scores: Tensor, ids: Tensor, penalty: float) -> Tensor:
    """Repetition penalty by presence: divide the positive, multiply the negative scores of *ids* [n], each once."""
    seen = scores[ids]
    return scores.scatter(0, ids, torch.where(seen < 0, seen * penalty, seen / penalty))


def forbid(scores: Tensor, ids: Tensor) -> Tensor:
    """Scores with the given ids [n] int64 set to −inf."""
    return scores.index_fill(0, ids, NEVER)


def keep_top_k(scores: Tensor, top_k: int, *, min_keep: int = 1) -> Tensor:
    """Keep what reaches the *top_k*-th largest score (ties stay), at least *min_keep* ids; 0 keeps all."""
    if top_k == 0:
        return scores
    top_k = min(max(top_k, min_keep), scores.shape[-1])
    threshold = scores.topk(top_k).values[-1]
    return scores.masked_fill(scores < threshold, NEVER)


def keep_top_p(scores: Tensor, top_p: float, *, min_keep: int = 1) -> Tensor:
    """Drop the ids whose probability summed from the smallest up is <= 1 − *top_p*, never the *min_keep* largest."""
    if top_p >= 1.0:
        return scores
    ascending, order = scores.sort(stable=True)  # of equals the smaller id goes first, on every device
    is_tail = ascending.softmax(-1).cumsum(-1) <= 1.0 - top_p
    is_tail[-min_keep:] = False
    return scores.masked_fill(torch.zeros_like(is_tail).scatter(0, order, is_tail), NEVER)


def keep_min_p(scores: Tensor, min_p: float) -> Tensor:
    """Drop the ids less probable than *min_p* times the most probable one; 0 keeps all."""
    if min_p == 0.0:
        return scores
    probs = scores.softmax(-1)
    return scores.masked_fill(probs < min_p * probs.max(), NEVER)


def keep_nucleus(scores: Tensor, top_k: int, top_p: float) -> Tensor:
    """The duplex filter: top-k, then top-p from the largest down, keeping the id that crosses *top_p*.

    Here a *top_p* of 0 means off (reference behaviour), unlike `keep_top_p`.
    """
    scores = keep_top_k(scores, top_k)
    if top_p == 0.0:
        return scores
    descending, order = scores.sort(descending=True)
    is_past = descending.softmax(-1).cumsum(-1) > top_p
    is_past = torch.cat((torch.zeros_like(is_past[:1]), is_past[:-1]))
    return scores.masked_fill(torch.zeros_like(is_past).scatter(0, order, is_past), NEVER)
