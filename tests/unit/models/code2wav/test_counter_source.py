"""Excitation noise keyed by place."""

import torch

from antiphon.models.code2wav.counter_source import CounterSourceNoise, counter_source_noise
from antiphon.models.code2wav.hift_stream import HELD_SAMPLES

CPU = torch.device("cpu")


def test_the_held_samples_of_the_next_chunk_get_the_same_noise_again() -> None:
    noise = CounterSourceNoise(7)
    first, second = noise.draw(24_000, 3, CPU), noise.draw(27_840, 3, CPU)
    assert first is not None
    assert second is not None
    assert torch.equal(first[:, -HELD_SAMPLES:], second[:, :HELD_SAMPLES])
    assert not torch.equal(first[:, :HELD_SAMPLES], second[:, HELD_SAMPLES : 2 * HELD_SAMPLES])


def test_a_row_does_not_depend_on_its_batch() -> None:
    seeds, starts = torch.tensor([1, 2, 1]), torch.tensor([0, 500, 500])
    batch = counter_source_noise(seeds, starts, 600, 2)
    alone = counter_source_noise(seeds[2:], starts[2:], 600, 2)
    assert torch.equal(batch[2:], alone)
    assert torch.equal(batch[0, 500:], batch[2, :100])
    assert not torch.equal(batch[1], batch[2])


def test_the_noise_is_standard_normal() -> None:
    noise = counter_source_noise(torch.tensor([3]), torch.tensor([0]), 20_000, 9)
    assert abs(float(noise.mean())) < 0.01
    assert abs(float(noise.std()) - 1) < 0.01
