"""The bytes of a shared-memory ring, seen by one process."""

import mmap
import os
import zlib

import torch
from torch import Tensor


class Ring:
    """A mapped segment. Positions count from the beginning of time; the place is the position modulo the size.

    Holds the segment's descriptor, and with it the lock that keeps the reaper away.
    """

    def __init__(self, descriptor: int, num_bytes: int) -> None:
        self.num_bytes = num_bytes
        self._descriptor: int | None = descriptor
        self._map = mmap.mmap(descriptor, num_bytes)
        self._bytes: Tensor | None = torch.frombuffer(self._map, dtype=torch.uint8)

    def write(self, position: int, source: Tensor) -> None:
        """Copy *source*, uint8 [n] on any device, into the ring."""
        ring = self._open_bytes()
        for place, start, end in self._parts(position, source.numel()):
            ring[place : place + end - start].copy_(source[start:end])

    def read(self, position: int, target: Tensor) -> None:
        """Copy out into *target*, uint8 [n]."""
        ring = self._open_bytes()
        for place, start, end in self._parts(position, target.numel()):
            target[start:end].copy_(ring[place : place + end - start])

    def checksum(self, position: int, num_bytes: int) -> int:
        ring, value = self._open_bytes().numpy().data, 0
        for place, start, end in self._parts(position, num_bytes):
            value = zlib.crc32(ring[place : place + end - start], value)
        return value

    def close(self) -> None:
        """Unmap and give the lock back. Nothing may be read or written afterwards; closing twice is nothing."""
        if self._descriptor is not None:
            self._bytes = None
            self._map.close()
            os.close(self._descriptor)
            self._descriptor = None

    def _open_bytes(self) -> Tensor:
        assert self._bytes is not None, "the ring is closed"
        return self._bytes

    def _parts(self, position: int, num_bytes: int) -> list[tuple[int, int, int]]:
        """A run that passes the end of the ring lies in two parts: place, and start and end within the run."""
        place = position % self.num_bytes
        first = min(num_bytes, self.num_bytes - place)
        parts = [(place, 0, first), (0, first, num_bytes)]
        return [part for part in parts if part[1] < part[2]]
