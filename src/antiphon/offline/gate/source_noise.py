"""Tests the law of the vocoder's excitation noise when it is drawn in place, over many seeds."""

from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray

from antiphon.models.code2wav.counter_source import counter_source_noise
from antiphon.offline.gate.limits import MIN_P_VALUE
from antiphon.offline.gate.verdict import Check
from antiphon.statistics.chi_square import goodness_of_fit

_BINS = 64  # equally likely under the normal law
_PAIR_BINS = 8
_HARMONICS = 9
_SAMPLES = 512


def check_noise_law(device: torch.device, num_draws: int) -> list[Check]:
    """Numbers are standard normal, neighbours in time, harmonic and seed are independent, and places do not matter."""
    num_seeds = max(2, num_draws // (_SAMPLES * _HARMONICS))
    seed = torch.arange(num_seeds, device=device)
    start = torch.full_like(seed, 24_000)
    noise = counter_source_noise(seed, start, _SAMPLES, _HARMONICS).double().cpu().numpy()
    edges = np.array([NormalDist().inv_cdf(index / _BINS) for index in range(1, _BINS)])
    bins = np.digitize(noise, edges)  # [seeds, samples, harmonics]
    coarse = bins // (_BINS // _PAIR_BINS)
    shifted = counter_source_noise(seed[:1], start[:1] + 100, _SAMPLES - 100, _HARMONICS).double().cpu().numpy()
    return [
        _check("normal law", np.bincount(bins.ravel(), minlength=_BINS)),
        _check("next sample", _pairs(coarse[:, :-1:2], coarse[:, 1::2])),
        _check("next harmonic", _pairs(coarse[:, :, :-1:2], coarse[:, :, 1::2])),
        _check("next seed", _pairs(coarse[: num_seeds // 2 * 2 : 2], coarse[1 : num_seeds // 2 * 2 : 2])),
        Check(
            name="difference when a chunk starts elsewhere",
            value=float(np.abs(noise[:1, 100:] - shifted).max()),
            limit=0.0,
        ),
    ]


def _pairs(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Counts of the pairs of neighbours, each in one of few bins."""
    return np.bincount((first * _PAIR_BINS + second).ravel(), minlength=_PAIR_BINS**2)


def _check(name: str, counts: NDArray[np.int64]) -> Check:
    p_value = goodness_of_fit(counts, np.full(len(counts), 1 / len(counts))).p_value
    return Check(name=f"p-value: {name}", value=p_value, limit=MIN_P_VALUE, is_at_least=True)
