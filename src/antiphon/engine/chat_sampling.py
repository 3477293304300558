"""How the next token of a chat answer is chosen: the rule of the transformers library, which the reference uses."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.engine.logits_filters import keep_min_p, keep_top_k, keep_top_p, penalise_present
from antiphon.engine.noise import NoiseSource
from antiphon.engine.sampling_range import require_range


@dataclass(frozen=True, kw_only=True)
class ChatSampling:
    """The reference's chat defaults (model specification, 2.9), which are not those of `generation_config.json`.

    `top_p` 1, `top_k` 0, `min_p` 0 and `repetition_penalty` 1 switch a step off. Greedy ignores all but the penalty.
    """

    is_greedy: bool = False
    temperature: float = 0.7
    top_p: float = 0.8
    top_k: int = 100
    min_p: float = 0.0
    repetition_penalty: float = 1.02

    def __post_init__(self) -> None:
        require_range("temperature", self.temperature, 0.0, above=not self.is_greedy)
        require_range("top_p", self.top_p, 0.0, 1.0)
        require_range("top_k", self.top_k, 0)
        require_range("min_p", self.min_p, 0.0, 1.0)
        require_range("repetition_penalty", self.repetition_penalty, 0.0, above=True)


def chat_scores(logits: Tensor, generated: Tensor, sampling: ChatSampling) -> Tensor:
    """Processed scores [V] float32, −inf where filtered: penalty, temperature, top-k, top-p, min-p, in this order.

    *generated* [n] int64 are the answer's ids so far. The prompt does not count: the reference generates from
    embeddings and so never shows the prompt to the penalty.
    """
    scores = penalise_present(logits.float(), generated, sampling.repetition_penalty)
    if sampling.is_greedy:
        return scores
    scores = keep_top_k(scores / sampling.temperature, sampling.top_k)
    return keep_min_p(keep_top_p(scores, sampling.top_p), sampling.min_p)


def next_chat_token(logits: Tensor, generated: Sequence[int], sampling: ChatSampling, noise: NoiseSource) -> int:
    """Draw one id from raw logits [V]; greedy takes the best and leaves *noise* alone."""
    scores = chat_scores(logits, torch.tensor(generated, dtype=torch.int64, device=logits.device), sampling)
    return int(scores.argmax()) if sampling.is_greedy else noise.draw(scores.softmax(-1))
