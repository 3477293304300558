"""Excitation noise without state: a number for each (seed of the stream, sample since its start, harmonic)."""

import torch
from torch import Tensor

from antiphon.layers.counter_rng import counter_normal
from antiphon.models.code2wav.hift_stream import HELD_SAMPLES


def counter_source_noise(seed: Tensor, start: Tensor, num_samples: int, num_harmonics: int) -> Tensor:
    """Standard normal noise of streams at any places.

    Args:
        seed: of each stream, [B] int64, not negative.
        start: absolute index of each stream's first sample, [B] int64.

    Returns:
        [B, num_samples, num_harmonics] float32; rows depend on their own seed and start alone.
    """
    sample = start[:, None, None] + torch.arange(num_samples, device=seed.device)[:, None]
    index = sample * num_harmonics + torch.arange(num_harmonics, device=seed.device)
    return counter_normal(seed[:, None, None], torch.zeros_like(index), index)


def next_source_start(start: int, num_samples: int) -> int:
    """Where the chunk after one of *num_samples* from *start* begins: its held samples are excited again."""
    return start + max(num_samples - HELD_SAMPLES, 0)


class CounterSourceNoise:
    """The noise of one stream as a `SourceNoise`. Chunk follows chunk, also from turn to turn."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.start = 0

    def draw(self, num_samples: int, num_harmonics: int, device: torch.device) -> Tensor | None:
        seed = torch.tensor([self.seed], dtype=torch.int64, device=device)
        start = torch.tensor([self.start], dtype=torch.int64, device=device)
        self.start = next_source_start(self.start, num_samples)
        return counter_source_noise(seed, start, num_samples, num_harmonics)
