"""How one launch tells the flow what to do: a row of integers per stream, filled on the host and cut up on the device.

One copy to the device per launch; every field has a fixed place, so a captured graph reads it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.layers.speech_shapes import FRAMES_PER_CODE, ChunkPositions, FlowCapacity

_SCALARS = ("slot", "num_codes", "num_voiced", "noise_offset", "num_token_past", "num_frame_past")


@dataclass(frozen=True)
class FlowRows:
    """The fields of B rows on the device, int64."""

    slot: Tensor  # [B]
    num_codes: Tensor  # [B] ids given, look-ahead included
    num_voiced: Tensor  # [B] ids voiced
    noise_offset: Tensor  # [B]
    num_token_past: Tensor  # [B]
    num_frame_past: Tensor  # [B]
    codes: Tensor  # [B, W + look-ahead]
    token_writes: Tensor  # [B, W]
    frame_writes: Tensor  # [B, 2W]
    solver_writes: Tensor  # [B, 2W]
    token_past: Tensor  # [B, kept tokens] right-aligned
    frame_past: Tensor  # [B, kept frames] right-aligned
    solver_seen: Tensor  # [B, solver size] 1 where an entry counts


@dataclass(frozen=True)
class FlowPlaces:
    """What the solver's kernels read of the rows, contiguous: made once per launch, used by all steps and blocks."""

    slots: Tensor  # [B] int64
    writes: Tensor  # [B, T] int64, the new frames' entries in their slot
    seen: Tensor  # [B, solver size] int32, 1 where an entry counts
    ends: Tensor  # [B] int32, one past the last entry that counts
    num_new: Tensor  # [B] int32 mel frames voiced

    @staticmethod
    def of(rows: FlowRows) -> "FlowPlaces":
        size = rows.solver_seen.shape[1]
        seen = rows.solver_seen.to(torch.int32)
        ramp = torch.arange(1, size + 1, dtype=torch.int32, device=seen.device)
        return FlowPlaces(
            slots=rows.slot.contiguous(),
            writes=rows.solver_writes.contiguous(),
            seen=seen.contiguous(),
            ends=(seen * ramp).amax(1),
            num_new=(FRAMES_PER_CODE * rows.num_voiced).to(torch.int32),
        )


class RowLayout:
    """Places of the fields for chunks of up to *width* voiced ids in slots of one *capacity*."""

    def __init__(self, capacity: FlowCapacity, width: int, lookahead: int) -> None:
        self.capacity = capacity
        self.width = width
        num_frames = FRAMES_PER_CODE * width
        self._fields: dict[str, slice] = {}
        place = len(_SCALARS)
        for name, size in (
            ("codes", width + lookahead),
            ("token_writes", width),
            ("frame_writes", num_frames),
            ("solver_writes", num_frames),
            ("token_past", capacity.kept_tokens),
            ("frame_past", capacity.kept_frames),
            ("solver_seen", capacity.solver_size),
        ):
            self._fields[name] = slice(place, place + size)
            place += size
        self.size = place

    def fill(
        self, row: NDArray[np.int64], slot: int, codes: Sequence[int], num_voiced: int, positions: ChunkPositions
    ) -> None:
        """Write one stream's chunk into *row* [size]. What a short chunk leaves of the width goes to junk entries."""
        capacity, fields = self.capacity, self._fields
        num_token_past, num_frame_past = len(positions.token_past), len(positions.frame_past)
        row[:] = 0
        row[: len(_SCALARS)] = (
            slot, len(codes), num_voiced, positions.noise_offset, num_token_past, num_frame_past,
        )  # fmt: skip
        row[fields["codes"]][: len(codes)] = codes
        for name, writes, junk in (
            ("token_writes", positions.token_writes, capacity.token_size - 1),
            ("frame_writes", positions.frame_writes, capacity.frame_size - 1),
            ("solver_writes", positions.solver_writes, capacity.solver_size - 1),
        ):
            field = row[fields[name]]
            field[: len(writes)] = writes
            field[len(writes) :] = junk
        row[fields["token_past"]][capacity.kept_tokens - num_token_past :] = positions.token_past
        row[fields["frame_past"]][capacity.kept_frames - num_frame_past :] = positions.frame_past
        row[fields["solver_seen"]][positions.solver_seen] = 1

    def split(self, rows: Tensor) -> FlowRows:
        """The fields of *rows* [B, size] as views."""
        scalars = [rows[:, index] for index in range(len(_SCALARS))]
        return FlowRows(*scalars, *(rows[:, place] for place in self._fields.values()))
