"""Turns the sampling parameters of the Thinker into draws, one token at a time."""

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from antiphon.core.errors import SamplingError
from antiphon.core.sampling import SamplingParams
from antiphon.engine.chat_sampling import ChatSampling, next_chat_token
from antiphon.engine.logits_filters import forbid, penalise_present
from antiphon.engine.noise import NoiseSource


class TextSampler:
    """The rule of one request. Penalties see the generated ids only, never the prompt.

    Order: repetition penalty, frequency and presence penalties, the minimum length, temperature, top-k, top-p, min-p.
    """

    def __init__(
        self, params: SamplingParams, *, end_ids: Collection[int], vocab_size: int, noise: NoiseSource
    ) -> None:
        """*end_ids*: the model's own terminators. Raises SamplingError for a stop id outside the vocabulary."""
        outside = [token_id for token_id in params.stop_token_ids if token_id >= vocab_size]
        if outside:
            raise SamplingError(f"stop_token_ids holds {outside[0]}; the vocabulary has the ids 0 to {vocab_size - 1}")
        self._params = params
        self._noise = noise
        self.stop_ids = frozenset(params.stop_token_ids) | (frozenset() if params.ignore_eos else frozenset(end_ids))
        self._never = frozenset(end_ids) - self.stop_ids  # with ignore_eos the terminators must not be drawn either
        is_greedy = params.temperature == 0.0
        # The penalties are applied here, because frequency and presence come between repetition and temperature.
        self._rule = ChatSampling(
            is_greedy=is_greedy,
            temperature=1.0 if is_greedy else params.temperature,
            top_p=params.top_p,
            top_k=max(params.top_k, 0),
            min_p=params.min_p,
            repetition_penalty=1.0,
        )

    def draw(self, logits: Tensor, generated: Sequence[int]) -> int:
        """The next id from raw *logits* [V]; *generated* are the ids drawn so far."""
        params = self._params
        scores = logits.float()
        if generated:
            ids = torch.tensor(generated, dtype=torch.int64, device=scores.device)
            scores = penalise_present(scores, ids, params.repetition_penalty)
            if params.frequency_penalty or params.presence_penalty:
                counts = torch.bincount(ids, minlength=scores.shape[-1])
                scores = scores - params.frequency_penalty * counts - params.presence_penalty * (counts > 0)
        banned = self._never | (self.stop_ids if len(generated) < params.min_tokens else frozenset())
        if banned:
            scores = forbid(scores, torch.tensor(sorted(banned), device=scores.device))
        return next_chat_token(scores, (), self._rule, self._noise)
