"""Collects the comparisons made for one recorded file and knows which of its tensors were never looked at."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.offline.verify.golden import GoldenSet


@dataclass
class CaseChecks:
    """Comparisons against one recorded file.

    Every recorded tensor must be read as an input (`tensor`) or compared (`close`): what is left over counts as a miss,
    so that a case nobody replays cannot pass.
    """

    file: str
    golden: GoldenSet
    num_checks: int = 0
    max_error: float = 0.0
    worst: str = ""
    failures: list[str] = field(default_factory=list)
    inputs: set[str] = field(default_factory=set)
    _compared: set[str] = field(default_factory=set)

    def names(self) -> list[str]:
        return self.golden.tensor_names(self.file)

    def has(self, name: str) -> bool:
        return name in self.golden.entries[self.file].get("tensors", {})

    def tensor(self, name: str) -> Tensor:
        """A recorded tensor, read as an input of the replay."""
        self.inputs.add(name)
        return self.golden.tensor(self.file, name)

    def close(self, name: str, ours: Tensor | NDArray[np.generic], *, scale: float = 1.0) -> None:
        """Compare with the recorded tensor *name*: same shape, and within its tolerance times *scale*.

        Integer tensors must be equal. Leading dimensions of size 1 are ignored on both sides. A thinned set holds every
        n-th value of the flattened tensor only; then those are compared.
        """
        self._compared.add(name)
        recorded = self.golden.tensor(self.file, name)
        mine = torch.as_tensor(ours).detach().cpu()
        self.num_checks += 1
        shape = self.golden.shape(self.file, name)
        if _trimmed(shape) != _trimmed(tuple(mine.shape)):
            self.failures.append(f"{name}: shape {tuple(mine.shape)}, recorded {shape}")
            return
        recorded, mine = recorded.flatten(), mine.flatten()[:: self.golden.stride(self.file, name)]
        tolerance = self.golden.tolerance(self.file, name) * scale
        if recorded.numel() == 0:
            return
        error = float((recorded.double() - mine.double()).abs().max())
        if np.isnan(error):
            self.failures.append(f"{name}: NaN")
            return
        if error > self.max_error and recorded.is_floating_point():
            self.max_error, self.worst = error, name
        if error > tolerance:
            self.failures.append(f"{name}: error {error:.3g} over tolerance {tolerance:.3g}")

    def equal(self, label: str, ours: object, recorded: object) -> None:
        """Compare ids, lengths, strings, decisions: anything that must be exactly as recorded."""
        self.num_checks += 1
        if ours != recorded:
            self.failures.append(f"{label}: {_short(ours)}, recorded {_short(recorded)}")

    def unknown(self, label: str) -> None:
        """Report a recorded case that this version cannot replay: a miss."""
        self.failures.append(f"{label}: a recorded case this version does not know")

    def finish(self) -> None:
        """Count what was recorded and never looked at, and a file without a single comparison, as misses."""
        unused = [name for name in self.names() if name not in self._compared | self.inputs]
        if unused:
            self.failures.append(f"never compared: {', '.join(unused[:6])}{' …' if len(unused) > 6 else ''}")
        if self.num_checks == 0 and not self.failures:
            self.failures.append("nothing was compared")


def _trimmed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """*shape* without leading ones."""
    start = next((index for index, size in enumerate(shape) if size != 1), len(shape))
    return shape[start:]


def _short(value: object) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 24:
        return f"{list(value[:24])!r}… ({len(value)} entries)"
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
