"""Pearson's chi-square test: whether counts come from a given law, or two sets of counts from one law."""

from dataclasses import dataclass
from math import exp, lgamma, log

import numpy as np
from numpy.typing import NDArray

MIN_EXPECTED = 5.0  # rarer outcomes are pooled: below it the statistic no longer follows the chi-square law
_MAX_TERMS = 10_000
_PRECISION = 1e-14
_TINY = 1e-300


@dataclass(frozen=True)
class ChiSquare:
    """A test's outcome. `p_value` is how often chance alone gives a statistic as large; degrees 0 decide nothing."""

    statistic: float
    degrees: int
    p_value: float


def goodness_of_fit(counts: NDArray[np.int64], probs: NDArray[np.float64]) -> ChiSquare:
    """Test *counts* [V] against the law *probs* [V], which must sum to about one.

    Outcomes are pooled from the rarest until each group is expected often enough. One that the law forbids gives a
    p-value of 0.
    """
    probs = np.asarray(probs, np.float64) / np.sum(probs, dtype=np.float64)
    if counts[probs == 0].any():
        return ChiSquare(float("inf"), 1, 0.0)
    groups = _pool(probs * counts.sum())
    observed = np.bincount(groups, counts).astype(np.float64)
    expected = np.bincount(groups, probs * counts.sum())
    return _outcome(float(((observed - expected) ** 2 / expected).sum()), len(expected) - 1)


def homogeneity(first: NDArray[np.int64], second: NDArray[np.int64]) -> ChiSquare:
    """Test whether the counts *first* [V] and *second* [V] are draws from the same law."""
    total = first + second
    if not first.sum() or not second.sum():
        raise ValueError("a test of homogeneity needs draws on both sides")
    share = np.array([first.sum(), second.sum()]) / total.sum()
    groups = _pool(total * share.min())
    statistic = 0.0
    pooled = np.bincount(groups, total).astype(np.float64)
    for counts, part in ((first, share[0]), (second, share[1])):
        expected = pooled * part
        present = expected > 0
        observed = np.bincount(groups, counts).astype(np.float64)
        statistic += float(((observed - expected)[present] ** 2 / expected[present]).sum())
    return _outcome(statistic, int((pooled > 0).sum()) - 1)


def chi_square_survival(statistic: float, degrees: int) -> float:
    """Probability that a chi-square variable of *degrees* exceeds *statistic*."""
    if statistic <= 0:
        return 1.0
    return _upper_gamma(degrees / 2, statistic / 2)


def _pool(expected: NDArray[np.float64]) -> NDArray[np.int64]:
    """Group number of each outcome, rare ones together, [V] int64."""
    order = np.argsort(expected, kind="stable")
    groups = np.zeros(len(expected), np.int64)
    group, filled = 0, 0.0
    for index in order:
        groups[index] = group
        filled += expected[index]
        if filled >= MIN_EXPECTED:
            group, filled = group + 1, 0.0
    if filled and group:  # the rest is too small for a group of its own
        groups[groups == group] = group - 1
    return groups


def _outcome(statistic: float, degrees: int) -> ChiSquare:
    if degrees < 1:
        return ChiSquare(statistic, 0, 1.0)
    return ChiSquare(statistic, degrees, chi_square_survival(statistic, degrees))


def _upper_gamma(shape: float, x: float) -> float:
    """The regularised upper incomplete gamma function: a series below its bend, Lentz's continued fraction above."""
    scale = exp(-x + shape * log(x) - lgamma(shape))
    if x < shape + 1:
        term = total = 1 / shape
        for step in range(1, _MAX_TERMS):
            term *= x / (shape + step)
            total += term
            if term < total * _PRECISION:
                break
        return max(0.0, 1 - total * scale)
    b = x + 1 - shape
    c, d = 1 / _TINY, 1 / b
    fraction = d
    for step in range(1, _MAX_TERMS):
        a = -step * (step - shape)
        b += 2
        d = 1 / (a * d + b or _TINY)
        c = b + a / c or _TINY
        fraction *= c * d
        if abs(c * d - 1) < _PRECISION:
            break
    return min(1.0, scale * fraction)
