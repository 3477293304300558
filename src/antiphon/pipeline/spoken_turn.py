"""Decides what the Talker draws for one request and what of it goes to the vocoder, condition by condition.

Torch-free twin of `eager.answer_speech`: the rules of both hand-offs, without the model.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from antiphon.core.handoff import Handoff
from antiphon.core.outputs import FinishReason
from antiphon.engine.code_buffer import CodeBuffer, CodeChunk
from antiphon.pipeline.speech import PIECE_CODES


@dataclass(frozen=True)
class ConditionPlan:
    """How a piece is to be spoken. `max_codes` counts ids that are kept; the last piece is closed by text_eos."""

    piece: int  # its number
    is_last: bool
    min_codes: int
    max_codes: int


class SpokenTurn:
    """One request's speech. Conditions are drawn one after another; codes leave in vocoder chunks while they come.

    Args:
        handoff: how pieces come. A span is one piece.
        min_codes: of a span; a streamed piece ends when it is spoken.
        max_codes: of the whole turn.
        is_chunked: hand chunks on while the turn is drawn; otherwise all of them at its end.

    Attributes:
        num_codes: drawn so far.
        reason: why the speech ended; None also if nothing was spoken.
        is_ended: no condition and no code follows.
    """

    def __init__(self, handoff: Handoff, *, min_codes: int, max_codes: int, is_chunked: bool = True) -> None:
        self.num_codes = 0
        self.reason: FinishReason | None = None
        self.is_ended = False
        self._streams = handoff is Handoff.STREAM
        self._min_codes = min_codes
        self._max_codes = max_codes
        self._is_chunked = is_chunked
        self._waiting: deque[tuple[int, int, bool]] = deque()  # number, tokens, is last
        self._num_pieces = 0
        self._is_drawing = self._is_last = False
        self._buffer = CodeBuffer()
        self._held: list[int] = []

    def push(self, num_tokens: int, *, is_last: bool) -> None:
        """A piece of text has come."""
        self._waiting.append((self._num_pieces, num_tokens, is_last))
        self._num_pieces += 1

    def next_condition(self) -> ConditionPlan | None:
        """What to draw next; None while a condition is drawn, no piece has come, or the speech has ended."""
        while self._waiting and not self._is_drawing and not self.is_ended:
            number, num_tokens, self._is_last = self._waiting.popleft()
            if num_tokens or self.num_codes:
                self._is_drawing = True
                return self._plan(number, self._is_last)
            self.is_ended = self._is_last
        return None

    def _plan(self, number: int, is_last: bool) -> ConditionPlan:
        if not self._streams:
            return ConditionPlan(number, is_last=True, min_codes=self._min_codes, max_codes=self._max_codes)
        max_codes = min(PIECE_CODES, self._max_codes - self.num_codes)
        return ConditionPlan(number, is_last=is_last, min_codes=0, max_codes=max_codes)

    def draw(self, codes: Sequence[int]) -> list[CodeChunk]:
        """Codes of the present condition have come; returns what can be voiced now."""
        assert self._is_drawing
        self.num_codes += len(codes)
        if self._is_chunked:
            return self._buffer.push(codes, first=False, end_of_turn=False)
        self._held += codes
        return []

    def end_condition(self, *, by_eos: bool) -> list[CodeChunk]:
        """The present condition has ended, by the end code or by a limit; returns what can be voiced now."""
        assert self._is_drawing
        self._is_drawing = False
        if not self._is_last and self.num_codes < self._max_codes:
            return []
        self.is_ended = True
        self.reason = FinishReason.STOP if by_eos and self._is_last else FinishReason.LENGTH
        held, self._held = self._held, []
        return self._buffer.push(held, first=False, end_of_turn=True) if self.num_codes else []
