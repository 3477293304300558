"""The account of a checkpoint's tensor names: every one is expected, known to be unused, or an error."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import torch

from antiphon.core.errors import CheckpointError

Shape = tuple[int, ...]
_MAX_LISTED = 8  # names of one kind in an error message; a wrong folder would otherwise list a thousand


@dataclass(frozen=True)
class StoredTensor:
    """A tensor as its file announces it."""

    shape: Shape
    dtype: torch.dtype

    @property
    def num_values(self) -> int:
        return prod(self.shape)

    @property
    def num_bytes(self) -> int:
        return self.num_values * self.dtype.itemsize


@dataclass(frozen=True)
class NameAccount:
    """What differs between the names and shapes of one file (or set of shards) and those of the model."""

    where: str
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    misshaped: tuple[str, ...]  # "name has [2, 3], expected [3, 2]"

    @property
    def is_clean(self) -> bool:
        return not (self.missing or self.unexpected or self.misshaped)

    def describe(self) -> str:
        """One line: counts and the first names of each kind."""
        kinds = (("missing", self.missing), ("unexpected", self.unexpected), ("mis-shaped", self.misshaped))
        return f"{self.where}: " + ", ".join(f"{len(names)} {kind} ({_first(names)})" for kind, names in kinds if names)


def _first(names: tuple[str, ...]) -> str:
    more = len(names) - _MAX_LISTED
    return "; ".join(names[:_MAX_LISTED]) + (f"; … {more} more" if more > 0 else "")


def account(where: str, expected: Mapping[str, Shape], found: Mapping[str, StoredTensor]) -> NameAccount:
    """Compare the tensors *found* in *where* with those *expected*."""
    misshaped = tuple(
        f"{name} has {list(found[name].shape)}, expected {list(shape)}"
        for name, shape in expected.items()
        if name in found and found[name].shape != shape
    )
    missing = tuple(name for name in expected if name not in found)
    unexpected = tuple(sorted(name for name in found if name not in expected))
    return NameAccount(where, missing, unexpected, misshaped)


def require_clean(accounts: list[NameAccount]) -> None:
    """Raise one CheckpointError that lists what is wrong in all *accounts*."""
    wrong = [entry.describe() for entry in accounts if not entry.is_clean]
    if wrong:
        raise CheckpointError(
            " | ".join(wrong) + "; the files do not belong to this config.json, or the checkpoint is incomplete"
        )
