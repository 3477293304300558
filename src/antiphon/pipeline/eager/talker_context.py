"""The Talker's key/value cache with its next position, fed one piece at a time, and the rule for when it is full."""

import torch
from torch import Tensor

from antiphon.core.errors import ContextLengthError
from antiphon.layers.kv_cache import CausalAttend, KVCache
from antiphon.models.talker.talker import Talker


class TalkerContext:
    """What the Talker has read. `position` is where the next token goes: usually the cache's length.

    Args:
        talker: the model.
        window_tokens: keep only so many newest entries after every forward pass; positions stay absolute.
    """

    def __init__(self, talker: Talker, *, window_tokens: int | None = None) -> None:
        self.talker = talker
        self.window_tokens = window_tokens
        self.cache = KVCache(talker.config.decoder.num_layers)
        self.position = 0

    def feed(self, embeds: Tensor) -> Tensor:
        """Append *embeds* [T, H] and return the scores [num_codec_ids] float32 of what follows the last of them."""
        num_new = embeds.shape[0]
        positions = torch.arange(self.position, self.position + num_new, device=embeds.device)
        hidden = self.talker(embeds, positions, CausalAttend(self.cache))
        self.position += num_new
        if self.window_tokens is not None and len(self.cache) > self.window_tokens:
            self.cache.keep([(len(self.cache) - self.window_tokens, len(self.cache))])
        return self.talker.logits(hidden[-1])

    def feed_code(self, code: int) -> Tensor:
        """Append one codec id and return the scores of what follows it."""
        return self.feed(self.embed_codes([code]))

    def embed_codes(self, codes: list[int]) -> Tensor:
        return self.talker.embed_codes(torch.tensor(codes, dtype=torch.int64, device=self.talker.device))

    def has_room(self, num_tokens: int) -> bool:
        return self.position + num_tokens <= self.talker.config.decoder.max_positions

    def restart(self) -> None:
        """Forget everything: an empty cache at position 0."""
        self.cache = KVCache(self.talker.config.decoder.num_layers)
        self.position = 0

    def roll_over(self, condition: Tensor, reserve: int, previous: tuple[Tensor, list[int]] | None) -> Tensor:
        """Start afresh with the little that the new condition follows on: the previous condition and its codes.

        For when the positions run out (the reference has no guard and runs past the trained ones after two minutes of
        one turn) and for `sliding_recompute`. *previous* is left out where it would not fit either.

        Args:
            condition: what is to be spoken next, [n, H].
            reserve: positions that the codes of *condition* may take.
            previous: the latest condition [m, H] and all of its codes.

        Returns:
            What to feed instead of *condition*, from position 0.

        Raises:
            ContextLengthError: *condition* alone does not fit.
        """
        self.restart()
        if previous is not None:
            spoken, codes = previous
            prompt = torch.cat((spoken, self.embed_codes(codes), condition))
            if self.has_room(prompt.shape[0] + reserve):
                return prompt
        if not self.has_room(condition.shape[0] + reserve):
            raise ContextLengthError(
                f"talker: a condition of {condition.shape[0]} tokens and {reserve} codes exceed the "
                f"{self.talker.config.decoder.max_positions} positions; speak shorter pieces of text"
            )
        return condition
