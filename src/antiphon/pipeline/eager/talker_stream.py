"""Speech that follows its text: one condition of about ten tokens after another, codes out in blocks (3.4, 3.5)."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.core.errors import ConfigError
from antiphon.engine.noise import NoiseSource
from antiphon.engine.talker_sampling import TalkerSampling, next_code
from antiphon.models.talker.talker import Talker
from antiphon.pipeline.eager.talker_condition import close_condition
from antiphon.pipeline.eager.talker_context import TalkerContext

ATTENTION_TYPES = ("full_attention", "sliding_window", "sliding_recompute", "reindex")


@dataclass(frozen=True)
class CodeBlock:
    """Codec ids ready for the vocoder. `is_final`: the speech ended with them (there may be none left)."""

    codes: tuple[int, ...]
    is_final: bool


class TalkerStream:
    """The Talker of one turn whose text arrives in pieces.

    Args:
        talker: the model.
        noise: chance.
        sampling: the parameters; None for the defaults.
        attention_type: what is kept from condition to condition; None for the checkpoint's own.
        window_tokens: cache entries that `sliding_window` keeps; None for the checkpoint's own.
        block_size: codes in a block; 25 are one second.
        max_codes: the most codes of one condition.

    Attributes:
        codes: all codec ids of the turn so far.
        num_buffered: how many of them no block has delivered yet.
        num_rollovers: how often the context was rebuilt because its positions ran out.
    """

    def __init__(
        self,
        talker: Talker,
        noise: NoiseSource,
        *,
        sampling: TalkerSampling | None = None,
        attention_type: str | None = None,
        window_tokens: int | None = None,
        block_size: int = 25,
        max_codes: int = 500,
    ) -> None:
        self.talker = talker
        self.noise = noise
        self.sampling = sampling or TalkerSampling()
        self.attention_type = attention_type or talker.config.attention_type
        if self.attention_type not in ATTENTION_TYPES:
            raise ConfigError(f"talker attention_type {attention_type!r}; known: {', '.join(ATTENTION_TYPES)}")
        has_window = self.attention_type == "sliding_window"
        window = window_tokens or talker.config.window_tokens
        self.context = TalkerContext(talker, window_tokens=window if has_window else None)
        self.block_size = block_size
        self.max_codes = max_codes
        self.codes: list[int] = []
        self.num_buffered = 0
        self.num_rollovers = 0
        self._chunk_lens: list[int] = []  # condition and codes of each chunk in the cache, in order
        self._previous: tuple[Tensor, list[int]] | None = None

    @property
    def position(self) -> int:
        """Where the next condition starts."""
        return self.context.position

    def speak(self, rows: Tensor, *, is_last_text: bool) -> Iterator[CodeBlock]:
        """Speak one piece of text; must be run to its end before the next piece.

        Draws until the end code, which ends only this piece, or *max_codes*. Blocks come as soon as they are full. The
        rest comes as the final block only if the end code is drawn in the last text: otherwise it stays buffered, and
        the caller speaks what `take_buffered` returns.

        Args:
            rows: condition rows without specials, [n, H].
            is_last_text: nothing follows: text_eos is appended.
        """
        condition = close_condition(self.talker, rows, has_text_eos=is_last_text)
        logits = self.context.feed(self._arrange(condition))
        eos_id = self.talker.config.codec_eos_id
        own: list[int] = []
        has_ended = False
        while len(own) < self.max_codes:
            code = next_code(logits, self.codes, self.sampling, self.noise, with_filters=True)
            has_ended = code == eos_id
            if has_ended:
                break
            own.append(code)
            self.codes.append(code)
            self.num_buffered += 1
            if self.num_buffered >= self.block_size:
                yield CodeBlock(self._take(self.block_size), is_final=False)
            if len(own) < self.max_codes:
                logits = self.context.feed_code(code)
            else:
                # The reference counts the last code of a piece cut by the limit and never feeds it: a gap of one.
                self.context.position += 1
        self._chunk_lens.append(condition.shape[0] + len(own))
        self._previous = (condition, own)
        if has_ended and is_last_text:
            yield CodeBlock(self.take_buffered(), is_final=True)

    def take_buffered(self) -> tuple[int, ...]:
        """The codes that no block delivered; afterwards there are none."""
        return self._take(self.num_buffered)

    def _take(self, count: int) -> tuple[int, ...]:
        start = len(self.codes) - self.num_buffered
        self.num_buffered -= count
        return tuple(self.codes[start : start + count])

    def _arrange(self, condition: Tensor) -> Tensor:
        """Make the cache ready for *condition* by the attention type's rule; returns what to feed."""
        if self.attention_type == "sliding_recompute" and self._previous is not None:
            return self.context.roll_over(condition, self.max_codes, self._previous)
        if self.attention_type == "reindex" and len(self._chunk_lens) >= 3:
            self._reindex()
        if self.context.has_room(condition.shape[0] + self.max_codes):
            return condition
        self.num_rollovers += 1
        prompt = self.context.roll_over(condition, self.max_codes, self._previous)
        self._chunk_lens = self._chunk_lens[-1:] if prompt.shape[0] > condition.shape[0] else []
        return prompt

    def _reindex(self) -> None:
        """Keep the first and the latest chunk and close the gap between them."""
        first, latest, length = self._chunk_lens[0], self._chunk_lens[-1], len(self.context.cache)
        self.context.cache.keep([(0, first), (length - latest, length)])
        # A constant shift would be right. As recorded, the angles of the kept block advance by two per entry.
        shift = torch.arange(latest, device=self.talker.device) + first - (length - latest)
        self.context.cache.rotate_keys(first, first + latest, shift, self.talker.model.rope)
        self.context.position = first + latest
