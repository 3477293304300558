"""Relative positions of the conformer: sinusoids of signed distances, and their scores laid out per query and key.

Model specification, section 4.4: Transformer-XL attention in closed form. With L keys of which the last Tq are the
queries' own, query i stands at index L − Tq + i and key j at index j; their distance d is the difference. Distances are
counted in cache
indices: after a cache was trimmed they are compressed, not true time.
"""

from math import log

import torch
from torch import Tensor


def distance_features(num_queries: int, num_keys: int, size: int, device: torch.device) -> Tensor:
    """Sinusoids of every distance a query can have, farthest past first: [num_keys + num_queries − 1, size] float32.

    Channel 2m is sin(d · 10000^(−2m/size)), channel 2m + 1 the cosine; d falls from num_keys − 1 to 1 − num_queries.
    There is no table, so the reference's limit of 5,000 positions does not exist here.
    """
    distance = torch.arange(num_keys - 1, -num_queries, -1, dtype=torch.float32, device=device)
    # The exponential of a float32 product, as in the reference: the power form differs in the last digits.
    rate = torch.exp(torch.arange(0, size, 2, dtype=torch.float32, device=device) * (-log(10_000.0) / size))
    angle = distance[:, None] * rate[None, :]
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)


def by_key(scores: Tensor) -> Tensor:
    """Turn scores per distance [..., Tq, L + Tq − 1] (farthest past first) into scores per key [..., Tq, L].

    Row i starts Tq − 1 − i columns later than its storage does, one column less than the row above: cutting the flat
    array into rows that are one column shorter does exactly that, without an index tensor.
    """
    num_queries, num_distances = scores.shape[-2:]
    if num_queries == 1:
        return scores
    flat = scores.flatten(-2)[..., num_queries - 1 : -1]
    rows = flat.reshape(*scores.shape[:-1], num_distances - 1)
    return rows[..., : num_distances - num_queries + 1]
