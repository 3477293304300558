"""One Thinker sequence with its own cache, fed a few tokens at a time: the slow twin of the Thinker stage."""

from collections.abc import Sequence

import torch
from torch import Tensor

from antiphon.layers.kv_cache import CausalAttend, KVCache
from antiphon.models.thinker.thinker import Thinker


class ThinkerSequence:
    """Positions are the cache's length onwards, also after the cache was cut."""

    def __init__(self, thinker: Thinker) -> None:
        self.thinker = thinker
        self.cache = KVCache(thinker.config.llm.num_layers)

    def __len__(self) -> int:
        return len(self.cache)

    @property
    def device(self) -> torch.device:
        return self.thinker.llm.lm_head.weight.device

    def feed(self, embeds: Tensor) -> Tensor:
        """Append *embeds* [T, hidden], T > 0; returns the final-norm hidden states of the same tokens [T, hidden]."""
        positions = torch.arange(len(self), len(self) + len(embeds), device=embeds.device)
        hidden: Tensor = self.thinker(embeds, positions, CausalAttend(self.cache))
        return hidden

    def feed_ids(self, ids: Sequence[int]) -> Tensor:
        """Append tokens by id; returns hidden [T, hidden]."""
        return self.feed(self.thinker.embed(torch.tensor(ids, dtype=torch.int64, device=self.device)))
