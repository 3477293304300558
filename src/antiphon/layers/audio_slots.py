"""Caches of streaming audio, one slot a stream, and attention of a unit's frames to all frames of its stream."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

UNIT_FRAMES = 50  # encoder frames of one unit, 1 s
STREAM_MEL_FRAMES = 104  # of a unit: two of context on each side; a stream's first unit has none in front


class AudioSlots:
    """Keys and values of the streams' frames: [layers, 2, slots, frames, H, D], in place."""

    def __init__(
        self, *, num_layers: int, num_slots: int, max_frames: int, num_heads: int, head_dim: int, device: torch.device,
        dtype: torch.dtype,
    ) -> None:  # fmt: skip
        shape = (num_layers, 2, num_slots, max_frames, num_heads, head_dim)
        self.pages = torch.zeros(shape, dtype=dtype, device=device)


class SlotAttend:
    """One launch: a unit of each of several streams, no stream twice.

    Args:
        slots: [B] int64, whose cache a row belongs to.
        lengths: [B] int64, frames in it so far.
        host_rows: the same as (slot, length) for the torch twin; None: the Triton kernel.
    """

    def __init__(
        self, cache: AudioSlots, slots: Tensor, lengths: Tensor, host_rows: Sequence[tuple[int, int]] | None
    ) -> None:
        self.cache, self.slots, self.lengths, self.host_rows = cache, slots, lengths, host_rows
        self._places = lengths[:, None] + torch.arange(UNIT_FRAMES, device=lengths.device)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Store *k* and *v*, mix values for *q*: [B, UNIT_FRAMES, H, D] each."""
        keys, values = self.cache.pages[layer]
        keys[self.slots[:, None], self._places] = k
        values[self.slots[:, None], self._places] = v
        if self.host_rows is None:
            # Imported here: a machine without Triton must be able to import this module.
            from antiphon.layers.kernels.audio_slots import attend_units

            return attend_units(q, keys, values, self.slots, self.lengths)
        out = torch.empty_like(q)
        for row, (slot, length) in enumerate(self.host_rows):
            seen = slice(0, length + UNIT_FRAMES)
            query, key, value = (x.transpose(0, 1)[None] for x in (q[row], keys[slot, seen], values[slot, seen]))
            mixed = scaled_dot_product_attention(query, key, value)
            out[row] = mixed[0].transpose(0, 1)
        return out
