"""How a batch of rows draws its next codec ids on the device: the batched twin of `talker_sampling`, without a sort.

The top-p set cut down to the top-k is a run of the largest scores, so a descending top-k and the exact normaliser of
the whole row decide it (optimisation notes, section 2.1). Model specification, 3.2 to 3.4.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.engine.logits_filters import NEVER
from antiphon.engine.talker_sampling import TalkerSampling
from antiphon.layers.counter_rng import exponential_race


@dataclass(frozen=True)
class DrawParams:
    """Rules of B rows.

    Attributes:
        temperature, penalty: [B] float32.
        tail: 1 − top_p; below 0 where top-p is off, [B] float32.
        top_k: ids that may stay, at least `min_keep`; the whole vocabulary where top-k is off, [B] int64.
        min_keep: ids that top-p leaves, [B] int64.
        has_filters: [B] bool.
        is_greedy: take the most probable, [B] bool.
    """

    temperature: Tensor
    penalty: Tensor
    tail: Tensor
    top_k: Tensor
    min_keep: Tensor
    has_filters: Tensor
    is_greedy: Tensor


def tail_of(sampling: TalkerSampling) -> float:
    """What top-p drops: ids whose probability summed from the smallest up is at most this."""
    return 1.0 - sampling.top_p if sampling.top_p < 1.0 else -1.0


def top_k_of(sampling: TalkerSampling, num_codec_ids: int) -> int:
    """Ids that top-k leaves."""
    return min(max(sampling.top_k, sampling.min_keep), num_codec_ids) if sampling.top_k else num_codec_ids


def penalise_rows(scores: Tensor, recent: Tensor, is_recent: Tensor, penalty: Tensor) -> Tensor:
    """Repetition penalty by frequency, row by row.

    Args:
        scores: [B, V] float32.
        recent: codes of the ring, [B, W] int64.
        is_recent: which of them count, [B, W] bool.
        penalty: [B] float32.
    """
    counts = torch.zeros_like(scores).scatter_add_(1, recent, is_recent.to(scores.dtype))
    strength = penalty[:, None] ** counts
    return torch.where(scores < 0, scores * strength, scores / strength)


def filter_rows(scores: Tensor, params: DrawParams, is_filtered: Tensor, num_candidates: int) -> Tensor:
    """Top-p, then top-k, for the rows of *is_filtered* [B] bool; what is dropped becomes −inf.

    Equal scores are treated as by the slow twin's stable sort: top-p drops the smaller id first, top-k keeps all that
    equal the k-th.

    Args:
        scores: [B, V] float32.
        params: rules of the rows.
        is_filtered: rows of others come back unchanged.
        num_candidates: at least the largest `top_k` of the filtered rows.
    """
    top = scores.topk(num_candidates).values
    log_total = scores.logsumexp(-1, keepdim=True)
    probs = (top - log_total).exp()
    through = probs.cumsum(-1)
    before = torch.cat((torch.zeros_like(through[:, :1]), through[:, :-1]), -1)
    rank = torch.arange(num_candidates, device=scores.device)
    tail = params.tail[:, None]
    in_nucleus = (1.0 - before > tail) | (rank < params.min_keep[:, None])
    num_kept = (in_nucleus & (rank < params.top_k[:, None])).sum(-1, keepdim=True)
    cut = top.gather(1, num_kept - 1)
    is_above = top > cut
    num_equal = (num_kept - is_above.sum(-1, keepdim=True)).float()
    # Where top-k made the cut, equals of the k-th stay as long as top-p has not dropped them.
    equals_in_nucleus = ((1.0 - tail - (probs * is_above).sum(-1, keepdim=True)) / (cut - log_total).exp()).ceil()
    num_equal = torch.where(num_kept == params.top_k[:, None], torch.maximum(num_equal, equals_in_nucleus), num_equal)
    is_equal = scores == cut
    num_larger_ids = is_equal.flip(-1).cumsum(-1).flip(-1) - 1
    is_kept = (scores > cut) | (is_equal & (num_larger_ids < num_equal)) | ~is_filtered[:, None]
    return scores.masked_fill(~is_kept, NEVER)


def row_probs(
    logits: Tensor,
    recent: Tensor,
    is_recent: Tensor,
    params: DrawParams,
    *,
    is_first: Tensor,
    masks_end: Tensor,
    num_candidates: int,
) -> Tensor:
    """Probabilities [B, V] float32 of the next codec ids; the last id ends the speech.

    Args:
        logits: [B, V] float32.
        recent: as for `penalise_rows`.
        is_recent: as for `penalise_rows`.
        params: rules of the rows.
        is_first: rows without history draw from the plain scores, [B] bool.
        masks_end: rows that may not end yet, [B] bool; after the filters: before, another id would slip in.
        num_candidates: as for `filter_rows`; 0: no row is filtered.
    """
    scores = logits / params.temperature[:, None]
    scores = penalise_rows(scores, recent, is_recent, params.penalty)
    if num_candidates:
        scores = filter_rows(scores, params, params.has_filters & ~is_first, num_candidates)
    end = scores[:, -1:].masked_fill(masks_end[:, None], NEVER)
    return torch.cat((scores[:, :-1], end), -1).softmax(-1)


def draw_rows(probs: Tensor, seed: Tensor, draw: Tensor, is_greedy: Tensor) -> Tensor:
    """One id [B] int64 of each row of *probs* [B, V]: draw number *draw* of the request with *seed*, [B] int64 each."""
    return torch.where(is_greedy, probs.argmax(-1), exponential_race(probs, seed, draw))
