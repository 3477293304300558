"""Chance, passed in: who picks an id from a distribution, so that every draw can be replayed."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from torch import Tensor

from antiphon.core.errors import SamplingError


class NoiseSource(Protocol):
    """Picks one id. One call is one draw; sources that count their draws count over their whole life."""

    def draw(self, probs: Tensor) -> int:
        """An index into *probs*, [V] float32, non-negative, not necessarily summing to one."""
        ...


class Argmax:
    """Always the most probable id, the first of equals."""

    def draw(self, probs: Tensor) -> int:
        return int(probs.argmax())


class Scripted:
    """The most probable id, except that draw number i (from 0) returns `script[i]` where there is one."""

    def __init__(self, script: Mapping[int, int]) -> None:
        self.script = dict(script)
        self.num_draws = 0

    def draw(self, probs: Tensor) -> int:
        scripted = self.script.get(self.num_draws)
        self.num_draws += 1
        return int(probs.argmax()) if scripted is None else scripted


class InverseCdf:
    """Draw number i turns `uniforms[i]` in [0, 1) into the first id whose cumulative probability lies above it."""

    def __init__(self, uniforms: Sequence[float]) -> None:
        self.uniforms = tuple(uniforms)
        self.num_draws = 0

    def draw(self, probs: Tensor) -> int:
        if self.num_draws == len(self.uniforms):
            raise SamplingError(f"all {self.num_draws} uniform numbers of this noise source are used up; give it more")
        uniform = self.uniforms[self.num_draws]
        self.num_draws += 1
        # float64: a float32 sum over a vocabulary is off by more than the gap between two ids.
        cumulative = probs.double().cumsum(-1)
        below = int((cumulative <= uniform * cumulative[-1]).sum())
        return min(below, probs.shape[-1] - 1)


class SeededNoise:
    """`torch.multinomial` on a CPU generator of its own: the same seed draws the same ids on every device."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def draw(self, probs: Tensor) -> int:
        return int(torch.multinomial(probs.cpu(), 1, generator=self.generator))
