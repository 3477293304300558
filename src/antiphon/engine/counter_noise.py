"""Draws keyed by (seed, number of the draw, id): what the captured steps use, as a source for the eager twin."""

import torch
from torch import Tensor

from antiphon.layers.counter_rng import exponential_race


class CounterNoise:
    """Draw number i of a request depends on its seed and i alone, wherever and in whatever batch it is made."""

    def __init__(self, seed: int, *, first_step: int = 0) -> None:
        self.seed = torch.tensor([seed], dtype=torch.int64)
        self.step = first_step

    def draw(self, probs: Tensor) -> int:
        step = torch.tensor([self.step], dtype=torch.int64, device=probs.device)
        self.step += 1
        return int(exponential_race(probs[None], self.seed.to(probs.device), step))
