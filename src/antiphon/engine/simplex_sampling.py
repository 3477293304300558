"""How the next token of a spoken simplex answer is chosen (model specification, 2.9 and 2.10)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.engine.logits_filters import forbid, keep_top_k, keep_top_p, penalise_present
from antiphon.engine.noise import NoiseSource
from antiphon.engine.sampling_range import require_range


@dataclass(frozen=True, kw_only=True)
class SimplexSampling:
    """Parameters of one answer, with the reference's defaults.

    `length_penalty` above 1 makes the terminators less likely, by the same rule as turn_eos in duplex. The
    specification does not pin it and the default leaves it off.
    """

    is_greedy: bool = False
    temperature: float = 0.7
    top_p: float = 0.8
    top_k: int = 100
    repetition_penalty: float = 1.02
    penalty_window: int = 128  # generated ids
    length_penalty: float = 1.0

    def __post_init__(self) -> None:
        require_range("temperature", self.temperature, 0.0, above=not self.is_greedy)
        require_range("top_p", self.top_p, 0.0, 1.0)
        require_range("top_k", self.top_k, 0)
        require_range("repetition_penalty", self.repetition_penalty, 0.0, above=True)
        require_range("penalty_window", self.penalty_window, 1)
        require_range("length_penalty", self.length_penalty, 0.0, above=True)


def simplex_scores(
    logits: Tensor, generated: Tensor, sampling: SimplexSampling, *, forbidden_ids: Tensor, stop_ids: Tensor
) -> Tensor:
    """Processed scores [V] float32: penalty, forbidden ids, temperature, top-k, top-p, in this order.

    *generated* [n] int64: the answer's ids so far, oldest first, without the prompt. *forbidden_ids* and *stop_ids*
    [m] int64, may be empty.
    """
    scores = penalise_present(logits.float(), generated[-sampling.penalty_window :], sampling.repetition_penalty)
    if sampling.length_penalty != 1.0:
        scores = penalise_present(scores, stop_ids, sampling.length_penalty)
    scores = forbid(scores, forbidden_ids)
    if sampling.is_greedy:
        return scores
    return keep_top_p(keep_top_k(scores / sampling.temperature, sampling.top_k), sampling.top_p)


def next_simplex_token(
    logits: Tensor,
    generated: Sequence[int],
    sampling: SimplexSampling,
    noise: NoiseSource,
    *,
    forbidden_ids: Sequence[int],
    stop_ids: Sequence[int],
) -> int:
    """Draw one id from raw logits [V]; greedy takes the best and leaves *noise* alone."""

    def ids(values: Sequence[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=logits.device)

    recent = ids(generated[-sampling.penalty_window :])
    scores = simplex_scores(logits, recent, sampling, forbidden_ids=ids(forbidden_ids), stop_ids=ids(stop_ids))
    return int(scores.argmax()) if sampling.is_greedy else noise.draw(scores.softmax(-1))
