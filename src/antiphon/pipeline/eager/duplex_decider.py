"""The decision loop of one duplex unit: ids drawn one by one, each fed back, until a terminator ends the unit.

Specification, sections 5.2 and 5.3.
"""

from dataclasses import dataclass, field

from torch import Tensor

from antiphon.engine.duplex_decision import DecisionIds, decide
from antiphon.engine.noise import NoiseSource
from antiphon.pipeline.eager.duplex_options import DuplexOptions, LogitsBias
from antiphon.pipeline.eager.thinker import ThinkerSequence
from antiphon.prompt.duplex_markup import duplex_forbidden_ids
from antiphon.prompt.tokenizer import Tokenizer


@dataclass
class Decided:
    """What one unit decided. `collected` ids exclude the first one and the terminator; `hidden` are their rows."""

    terminator: int
    fed: list[int] = field(default_factory=list)  # in front of the terminator
    collected: list[int] = field(default_factory=list)
    hidden: list[Tensor] = field(default_factory=list)
    end_of_turn: bool = False


class UnitDecider:
    """Owns what decisions remember between units: whether a turn is open, and the ids the penalty sees."""

    def __init__(
        self,
        sequence: ThinkerSequence,
        tokenizer: Tokenizer,
        options: DuplexOptions,
        noise: NoiseSource,
        logits_bias: LogitsBias | None,
    ) -> None:
        special = tokenizer.special
        self.is_turn_open = False
        self._sequence = sequence
        self._tokenizer = tokenizer
        self._options = options
        self._noise = noise
        self._logits_bias = logits_bias
        self._history: list[int] = []
        self._terminators = frozenset((special.listen, special.chunk_eos, special.chunk_tts_eos))
        self._ids = DecisionIds(
            chunk_eos=special.chunk_eos,
            turn_eos=special.turn_eos,
            tokenizer_eos=special.im_end,
            forbidden=duplex_forbidden_ids(tokenizer),
        )

    def decide(self, logits: Tensor, *, unit: int) -> Decided:
        """Run the loop from the *logits* [vocab] that follow the unit's input; the terminator itself is not fed."""
        special = self._tokenizer.special
        decided = Decided(terminator=special.chunk_eos)
        # The last step never asks the model: it ends the chunk, so at most one id less than the limit is free.
        for step in range(self._options.max_tokens - 1):
            token_id = self._draw(logits, unit=unit, step=step)
            if token_id == special.listen and self.is_turn_open:
                token_id = special.tts_bos  # a turn cannot be left by listening, only by turn_eos
            if token_id in self._terminators:
                decided.terminator = token_id
                break
            if step > 0 and self._is_too_long(decided.collected, token_id):
                break
            hidden = self._feed(token_id)
            logits = self._sequence.thinker.logits(hidden)
            decided.fed.append(token_id)
            # turn_eos does not end the unit: ids may follow it, and then the turn is open again.
            decided.end_of_turn = token_id == special.turn_eos
            self.is_turn_open = not decided.end_of_turn
            if step > 0:  # the first id (usually <|speak|>) is neither text nor speech
                decided.collected.append(token_id)
                decided.hidden.append(hidden)
        return decided

    def listen(self) -> Decided:
        """A unit that listens without asking the model; an open turn is closed first."""
        special = self._tokenizer.special
        decided = Decided(terminator=special.listen)
        if self.is_turn_open:
            self._feed(special.turn_eos)
            decided.fed.append(special.turn_eos)
            self.is_turn_open = False
        return decided

    def _draw(self, logits: Tensor, *, unit: int, step: int) -> int:
        if self._logits_bias is not None:
            logits = self._logits_bias(logits, unit=unit, step=step)
        decision = decide(logits, self._history, self._options.sampling, self._ids, self._noise)
        if decision.is_recorded:
            self._history.append(decision.token_id)
        return decision.token_id

    def _feed(self, token_id: int) -> Tensor:
        return self._sequence.feed_ids([token_id])[-1]

    def _is_too_long(self, collected: list[int], candidate: int) -> bool:
        max_chars = self._options.rules.max_unit_chars
        if max_chars is None:
            return False
        return len(self._tokenizer.decode([*collected, candidate], skip_special=True)) >= max_chars
