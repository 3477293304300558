"""The text of a spoken simplex answer, ten tokens at a time, each with the hidden row the Talker needs (2.10)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from antiphon.engine.noise import NoiseSource
from antiphon.engine.simplex_sampling import SimplexSampling, next_simplex_token
from antiphon.pipeline.eager.thinker import ThinkerSequence

CHUNK_TOKENS = 10  # what the model was trained with


class AdjustLogits(Protocol):
    """Changes the raw scores [V] of draw number *step* (from 0) before the sampling rule sees them."""

    def __call__(self, step: int, logits: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class TextChunk:
    """Ids of an answer with their final-norm hidden rows. `is_final`: a terminator ended the answer behind them."""

    ids: tuple[int, ...]
    hidden: Tensor  # [n, hidden]
    is_final: bool


class TextChunks:
    """Generates one answer behind what a sequence holds.

    Every id is fed before the next one is drawn, so a chunk's last id has its row only once the following id is known:
    the first chunk draws one id more than it delivers. Terminators are drawn, never fed.

    Args:
        sequence: the session's Thinker, prompt fed.
        last_hidden: the row of its last token, [hidden].
        sampling: the parameters.
        noise: chance.
        stop_ids: the terminators.
        forbidden_ids: never drawn.
        max_new_tokens: the most ids to deliver. If the limit ends the answer, no chunk is final (reference behaviour).
        adjust_logits: see there.

    Attributes:
        ids: everything drawn so far but a terminator.
        is_finished: nothing more will come.
    """

    def __init__(
        self,
        sequence: ThinkerSequence,
        last_hidden: Tensor,
        *,
        sampling: SimplexSampling,
        noise: NoiseSource,
        stop_ids: Sequence[int],
        forbidden_ids: Sequence[int],
        max_new_tokens: int = 256,
        adjust_logits: AdjustLogits | None = None,
    ) -> None:
        self.sequence = sequence
        self.sampling = sampling
        self.noise = noise
        self.stop_ids = tuple(stop_ids)
        self.forbidden_ids = tuple(forbidden_ids)
        self.max_new_tokens = max_new_tokens
        self.adjust_logits = adjust_logits
        self.ids: list[int] = []
        self.is_finished = False
        self._last_hidden = last_hidden
        self._num_fed = 0
        self._num_draws = 0
        self._is_ended = False

    def next_chunk(self) -> TextChunk:
        """The next ten ids, or the rest. Only while not `is_finished`; the last chunk may be empty."""
        assert not self.is_finished
        start = self._num_fed
        rows: list[Tensor] = []
        if self._num_draws == 0:
            self._draw()
        while len(rows) < CHUNK_TOKENS and self._num_fed < len(self.ids):
            self._last_hidden = self.sequence.feed_ids([self.ids[self._num_fed]])[-1]
            rows.append(self._last_hidden)
            self._num_fed += 1
            if self._num_fed < self.max_new_tokens:
                self._draw()
        self.is_finished = self._is_ended or self._num_fed == self.max_new_tokens
        hidden = torch.stack(rows) if rows else self._last_hidden.new_empty(0, self._last_hidden.shape[-1])
        return TextChunk(tuple(self.ids[start : self._num_fed]), hidden, is_final=self._is_ended)

    def _draw(self) -> None:
        logits = self.sequence.thinker.logits(self._last_hidden)
        if self.adjust_logits is not None:
            logits = self.adjust_logits(self._num_draws, logits)
        self._num_draws += 1
        token_id = next_simplex_token(
            logits,
            self.ids,
            self.sampling,
            self.noise,
            forbidden_ids=self.forbidden_ids,
            stop_ids=self.stop_ids,
        )
        self._is_ended = token_id in self.stop_ids
        if not self._is_ended:
            self.ids.append(token_id)
