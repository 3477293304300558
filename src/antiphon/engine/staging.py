"""Buffers that carry small arrays between host and device without stopping either."""

from collections.abc import Sequence

import torch
from torch import Tensor


class Upload:
    """A pinned host array and its place on the device. Must not be filled again before its launch is done."""

    def __init__(self, size: int, *, device: torch.device, dtype: torch.dtype) -> None:
        self.host = torch.zeros(size, dtype=dtype, pin_memory=device.type == "cuda")
        self.device = torch.zeros(size, dtype=dtype, device=device)

    def view(self, *shape: int) -> Tensor:
        """The front of the device's side, in this shape."""
        size = 1
        for side in shape:
            size *= side
        return self.device[:size].view(shape)

    def send(self, rows: Sequence[Sequence[int]] | Sequence[Sequence[float]]) -> None:
        """Write *rows*, all of one length, to the front; the copy is queued on the current stream."""
        values = torch.tensor(rows, dtype=self.host.dtype).flatten()
        self.host[: len(values)] = values
        self.device[: len(values)].copy_(self.host[: len(values)], non_blocking=True)


class Download:
    """A device array and the pinned host array it is copied to behind a launch."""

    def __init__(self, num_rows: int, num_columns: int, *, device: torch.device, dtype: torch.dtype) -> None:
        self.device = torch.zeros(num_rows, num_columns, dtype=dtype, device=device)
        self._host = torch.zeros(num_rows, num_columns, dtype=dtype, pin_memory=device.type == "cuda")

    def fetch(self) -> None:
        """Queue the copy on the current stream."""
        self._host.copy_(self.device, non_blocking=True)

    def read(self, num_rows: int, num_columns: int) -> list[list[int]]:
        """The front of what `fetch` brought; its fence must have passed."""
        values: list[list[int]] = self._host[:num_rows, :num_columns].tolist()
        return values
