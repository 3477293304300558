"""Decides which drawn tokens the Talker speaks, in which pieces, and where the answer ends at a stop string.

Torch-free twin of `eager.answer_text.SpeechText`: tokens are counted, their hidden rows are somebody else's.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from antiphon.core.handoff import Handoff
from antiphon.pipeline.speech import PIECE_TOKENS
from antiphon.prompt.detokenizer import Detokenizer, StopStrings
from antiphon.prompt.special_tokens import SpecialTokens
from antiphon.prompt.tokenizer import Tokenizer


@dataclass(frozen=True)
class Piece:
    """Tokens number *start* to *end* (exclusive) of the answer are spoken together; after `is_last` comes nothing."""

    start: int
    end: int
    is_last: bool


class AnswerStops:
    """Finds stop strings in the text of drawn tokens, exactly as the text that is shown is cut."""

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str]) -> None:
        self._detokenizer = Detokenizer(tokenizer)
        self._stops = StopStrings(stop)
        self._num_shown = 0
        self._ends: list[int] = []  # characters of the text up to and with each token

    def push(self, token_id: int) -> bool:
        """Take the next token; returns whether it completed a stop string."""
        piece = self._detokenizer.push(token_id)
        self._ends.append((self._ends[-1] if self._ends else 0) + len(piece))
        self._num_shown += len(self._stops.push(piece))
        return self._stops.is_hit

    @property
    def num_kept(self) -> int:
        """How many of the tokens lie wholly in front of the stop string."""
        return sum(end <= self._num_shown for end in self._ends)


class SpeechBridge:
    """The text-to-speech hand-off of one answer.

    What stands before the last `<|tts_bos|>` is not spoken, neither are thoughts, nor what follows the last
    `<|tts_eos|>` (which normally ends the answer). In a stream a full piece is handed on only once a token behind it
    shows that it is not the last one, and the first `<|tts_eos|>` ends the speech.

    Invariant: what waits are the tokens [`_start`, `_end`) of the answer.
    """

    def __init__(self, special: SpecialTokens, handoff: Handoff) -> None:
        self._special = special
        self._streams = handoff is Handoff.STREAM
        self._start = self._end = self._num_tokens = 0
        self._boundary: int | None = None
        self._is_thinking = False
        self.is_done = False  # the last piece was handed on

    def push(self, token_id: int) -> None:
        """Take the next token that is no terminator."""
        special = self._special
        self._num_tokens += 1
        if token_id in (special.tts_bos, special.think_start, special.think_end):
            self._is_thinking = token_id == special.think_start
            self._boundary = None
            if not self.is_done:
                self._start = self._end = self._num_tokens
            return
        if token_id == special.tts_eos:
            self._boundary = self._end
        if self._is_thinking:
            self._start = self._num_tokens
        self._end = self._num_tokens

    def take_piece(self) -> Piece | None:
        """The piece that may be spoken before the answer has ended, if there is one now."""
        if not self._streams or self.is_done:
            return None
        if self._boundary is not None:
            return self.finish()
        if self._end - self._start <= PIECE_TOKENS:
            return None
        self._start += PIECE_TOKENS
        return Piece(self._start - PIECE_TOKENS, self._start, is_last=False)

    def cut(self, num_kept: int) -> None:
        """A stop string ended the text: only the first *num_kept* tokens count."""
        self._end = max(self._start, min(self._end, num_kept))

    def finish(self) -> Piece:
        """The answer has ended; returns what is left to speak, perhaps nothing."""
        assert not self.is_done
        self.is_done = True
        end = self._end if self._boundary is None else min(self._end, max(self._start, self._boundary))
        return Piece(self._start, end, is_last=True)


class AnswerBridge:
    """Follows the drawn tokens of one answer: stop strings, pieces to speak, and what is still owed to the Talker.

    Args:
        tokenizer: the model's.
        handoff: None: nothing is spoken.
        stop: stop strings.

    Attributes:
        ids: the answer so far.
        is_stopped: a stop string ended it.
    """

    def __init__(self, tokenizer: Tokenizer, handoff: Handoff | None, stop: Sequence[str]) -> None:
        self._stops = AnswerStops(tokenizer, stop) if stop else None
        self._speech = SpeechBridge(tokenizer.special, handoff) if handoff is not None else None
        self._pieces: list[Piece] = []
        self.ids: list[int] = []
        self.is_stopped = False

    def push(self, ids: Sequence[int]) -> int:
        """Take drawn tokens, no terminator; returns how many belong to the answer, which a stop string ends."""
        for count, token_id in enumerate(ids, start=1):
            self.ids.append(token_id)
            self.is_stopped = self._stops is not None and self._stops.push(token_id)
            if self._speech is not None:
                self._push_speech(self._speech, token_id)
            if self.is_stopped:
                return count
        return len(ids)

    def _push_speech(self, speech: SpeechBridge, token_id: int) -> None:
        speech.push(token_id)
        if self.is_stopped and self._stops is not None:
            speech.cut(self._stops.num_kept)
        piece = speech.take_piece()
        if piece is not None:
            self._pieces.append(piece)

    def finish(self) -> None:
        """The answer has ended."""
        if self._speech is not None and not self._speech.is_done:
            self._pieces.append(self._speech.finish())

    def take(self, num_rows: int) -> list[Piece]:
        """The pieces whose tokens all have one of the first *num_rows* hidden rows, in order."""
        ready = [piece for piece in self._pieces if piece.end <= num_rows or piece.start == piece.end]
        del self._pieces[: len(ready)]
        return ready
