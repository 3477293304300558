"""How the next codec id is chosen from the Talker's scores (model specification, 3.2 to 3.4)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.engine.logits_filters import NEVER, keep_top_k, keep_top_p
from antiphon.engine.noise import NoiseSource
from antiphon.engine.sampling_range import require_range


@dataclass(frozen=True, kw_only=True)
class TalkerSampling:
    """Defaults of the checkpoint's authors. `top_p` 1 and `top_k` 0 switch a filter off."""

    temperature: float = 0.8
    top_p: float = 0.85
    top_k: int = 25
    repetition_penalty: float = 1.05
    penalty_window: int = 16  # codes, 0.64 s
    min_keep: int = 3  # ids that either filter leaves

    def __post_init__(self) -> None:
        require_range("talker temperature", self.temperature, 0.0, above=True)
        require_range("talker top_p", self.top_p, 0.0, 1.0)
        require_range("talker top_k", self.top_k, 0)
        require_range("talker repetition_penalty", self.repetition_penalty, 0.0, above=True)
        require_range("talker penalty_window", self.penalty_window, 1)
        require_range("talker min_keep", self.min_keep, 1)


def penalise_codes(scores: Tensor, recent: Tensor, penalty: float) -> Tensor:
    """Repetition penalty by frequency: *penalty* to the power of an id's count in *recent* [n] int64.

    A presence penalty over the whole stream (the common rule) lets long answers drift into near silence.
    """
    counts = torch.zeros_like(scores).index_add(0, recent, torch.ones_like(recent, dtype=scores.dtype))
    strength = penalty**counts
    return torch.where(scores < 0, scores * strength, scores / strength)


def code_probs(
    logits: Tensor, history: Tensor, sampling: TalkerSampling, *, with_filters: bool, masked_id: int | None = None
) -> Tensor:
    """Probabilities of the next codec id.

    Args:
        logits: raw scores, [V] float32.
        history: the codes the penalty may see, [n] int64, oldest first. Empty means the very first code, which gets
            neither penalty nor filters, only the temperature.
        sampling: the parameters.
        with_filters: apply top-p, then top-k. Duplex chunks do not.
        masked_id: an id that may not come yet (the end code below the minimum length). Masked after the filters: masked
            before, it would let another id in.

    Returns:
        [V] float32, summing to one.
    """
    scores = logits.float() / sampling.temperature
    if history.numel() > 0:
        scores = penalise_codes(scores, history[-sampling.penalty_window :], sampling.repetition_penalty)
        if with_filters:
            scores = keep_top_p(scores, sampling.top_p, min_keep=sampling.min_keep)
            scores = keep_top_k(scores, sampling.top_k, min_keep=sampling.min_keep)
    if masked_id is not None:
        scores = scores.clone()
        scores[masked_id] = NEVER
    return scores.softmax(-1)


def next_code(
    logits: Tensor,
    history: Sequence[int],
    sampling: TalkerSampling,
    noise: NoiseSource,
    *,
    with_filters: bool,
    masked_id: int | None = None,
) -> int:
    """Draw one codec id; arguments as in `code_probs`."""
    recent = torch.tensor(history[-sampling.penalty_window :], dtype=torch.int64, device=logits.device)
    return noise.draw(code_probs(logits, recent, sampling, with_filters=with_filters, masked_id=masked_id))
