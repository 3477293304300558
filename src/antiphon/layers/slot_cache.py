"""Contiguous key/value caches of fixed slots, one more than are lent: the last takes what padding rows write."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class HeadSizes:
    """How a stacked projection [T, (H + 2·H_kv)·D] is divided."""

    num_heads: int
    num_kv_heads: int
    head_dim: int


class SlotCache:
    """Keys (after RoPE) and values of all slots, layer-major: a layer's cache is one tensor [S + 1, H_kv, L, D].

    A slot is never cleared: whoever reads it knows how many entries count. What stands behind them may be anything,
    even NaN of a sequence that ended badly.
    """

    def __init__(
        self,
        num_layers: int,
        num_slots: int,
        max_positions: int,
        heads: HeadSizes,
        *,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        shape = (num_layers, 2, num_slots + 1, heads.num_kv_heads, max_positions, heads.head_dim)
        self.pages = torch.zeros(shape, device=device, dtype=dtype)
        self.heads = heads
        self.num_slots = num_slots
        self.max_positions = max_positions

    @property
    def scratch_slot(self) -> int:
        """Where padding rows belong; lent to nobody."""
        return self.num_slots

    def layer(self, index: int) -> tuple[Tensor, Tensor]:
        """Keys and values of one layer, [S + 1, H_kv, L, D] each."""
        keys, values = self.pages[index]
        return keys, values
