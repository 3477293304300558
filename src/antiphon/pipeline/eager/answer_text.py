"""The text side of one chat answer: draws tokens, shows them as text, and collects what is to be spoken."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from antiphon.core.outputs import FinishReason
from antiphon.pipeline.eager.text_sampling import TextSampler
from antiphon.pipeline.eager.thinker import ThinkerSequence
from antiphon.prompt.detokenizer import Detokenizer, StopStrings
from antiphon.prompt.tokenizer import Tokenizer


@dataclass(frozen=True)
class SpokenToken:
    """A token with the hidden row of its own forward pass, [hidden]: what the Talker is conditioned with."""

    id: int
    hidden: Tensor
    end_char: int  # length of the decoded answer up to and with this token


class SpeechText:
    """Tokens of the answer that are to be spoken and have not been handed on.

    What stands before the last `<|tts_bos|>` is not spoken, and neither are thoughts.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._special = tokenizer.special
        self._is_thinking = False
        self.waiting: list[SpokenToken] = []

    def push(self, token: SpokenToken) -> None:
        special = self._special
        if token.id in (special.tts_bos, special.think_start, special.think_end):
            self._is_thinking = token.id == special.think_start
            self.waiting.clear()
        elif not self._is_thinking:
            self.waiting.append(token)

    def take(self, count: int | None = None) -> list[SpokenToken]:
        """Hand on the oldest *count* tokens, by default all of them."""
        taken = self.waiting[:count]
        del self.waiting[: len(taken)]
        return taken

    def drop_after(self, num_chars: int) -> None:
        """Forget the tokens whose text reaches beyond the first *num_chars* characters: a stop string began there."""
        self.waiting = [token for token in self.waiting if token.end_char <= num_chars]


class AnswerText:
    """Draws one answer behind a prefilled prompt.

    Every token but the terminator is fed before the next is drawn, so each has its hidden row. The reference leaves the
    last token of an answer that reached its limit without one and does not speak it; here it is spoken.

    Attributes:
        ids: everything drawn.
        text: everything shown.
        finish_reason: None while running.
    """

    def __init__(
        self,
        sequence: ThinkerSequence,
        last_hidden: Tensor,
        *,
        sampler: TextSampler,
        tokenizer: Tokenizer,
        max_tokens: int,
        stop: tuple[str, ...],
    ) -> None:
        self.ids: list[int] = []
        self.text = ""
        self.speech = SpeechText(tokenizer)
        self.finish_reason: FinishReason | None = None
        self._sequence = sequence
        self._last_hidden = last_hidden
        self._sampler = sampler
        self._max_tokens = max_tokens
        self._detokenizer = Detokenizer(tokenizer)
        self._stops = StopStrings(stop)
        self._num_chars = 0

    def run(self) -> Iterator[str]:
        """Draw until the answer ends; yields the new text after every token, also when there is none."""
        while self.finish_reason is None:
            yield self._show(self._draw())
        yield self._show(self._finish())

    def _draw(self) -> str:
        """Draw and feed one token; returns its text as far as it is complete."""
        token_id = self._sampler.draw(self._sequence.thinker.logits(self._last_hidden), self.ids)
        self.ids.append(token_id)
        if token_id in self._sampler.stop_ids:
            self.finish_reason = FinishReason.STOP
            return ""
        piece = self._detokenizer.push(token_id)
        self._num_chars += len(piece)
        self._last_hidden = self._sequence.feed_ids([token_id])[-1]
        self.speech.push(SpokenToken(token_id, self._last_hidden, self._num_chars))
        shown = self._stops.push(piece)
        if self._stops.is_hit:
            self.finish_reason = FinishReason.STOP
            self.speech.drop_after(len(self.text) + len(shown))
        elif len(self.ids) == self._max_tokens:
            self.finish_reason = FinishReason.LENGTH
        return shown

    def _finish(self) -> str:
        if self._stops.is_hit:
            return ""
        return self._stops.push(self._detokenizer.finish()) + self._stops.finish()

    def _show(self, piece: str) -> str:
        self.text += piece
        return piece
