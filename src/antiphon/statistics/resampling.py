"""Bootstrap intervals: how far a mean, or a ratio of two, could lie from what one sample shows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NUM_RESAMPLES = 2000
CONFIDENCE = 0.95
_MAX_CELLS = 4_000_000  # of one block of resamples, so that memory stays bounded for long samples

Values = NDArray[np.float64]
Statistic = Callable[[Values], Values]  # of rows: [R, n] → [R]


@dataclass(frozen=True)
class Interval:
    """Holds the true value with the confidence that was asked for, as far as the sample speaks for its source."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def row_means(rows: Values) -> Values:
    means: Values = rows.mean(axis=1)
    return means


def row_medians(rows: Values) -> Values:
    medians: Values = np.median(rows, axis=1)
    return medians


def bootstrap_interval(
    values: Sequence[float], statistic: Statistic = row_means, *, confidence: float = CONFIDENCE, seed: int = 0
) -> Interval | None:
    """Interval of *statistic* of what *values* are a sample of; None for fewer than two."""
    if len(values) < 2:
        return None
    return _percentiles(_resample(np.asarray(values, np.float64), statistic, np.random.default_rng(seed)), confidence)


def bootstrap_ratio(
    first: Sequence[float],
    second: Sequence[float],
    statistic: Statistic = row_means,
    *,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Interval | None:
    """Interval of *second*'s statistic ÷ *first*'s, two independent samples; None where it cannot be told."""
    if len(first) < 2 or len(second) < 2:
        return None
    generator = np.random.default_rng(seed)
    below = _resample(np.asarray(first, np.float64), statistic, generator)
    above = _resample(np.asarray(second, np.float64), statistic, generator)
    if (below <= 0).any():
        return None
    return _percentiles(above / below, confidence)


def bootstrap_paired_ratio(
    pairs: Sequence[tuple[float, float]],
    statistic: Statistic = row_means,
    *,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Interval | None:
    """As `bootstrap_ratio`, over *pairs* (first, second) that are resampled together: what both share cancels out."""
    if len(pairs) < 2:
        return None
    first, second = np.asarray(pairs, np.float64).T
    below = _resample(first, statistic, np.random.default_rng(seed))
    above = _resample(second, statistic, np.random.default_rng(seed))  # the same seed: the same rows are drawn
    if (below <= 0).any():
        return None
    return _percentiles(above / below, confidence)


def bootstrap_difference(
    pairs: Sequence[tuple[float, float]],
    statistic: Statistic = row_means,
    *,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Interval | None:
    """Interval of second − first over *pairs*, which are resampled together; None for fewer than two."""
    return bootstrap_interval([after - before for before, after in pairs], statistic, confidence=confidence, seed=seed)


def _resample(values: Values, statistic: Statistic, generator: np.random.Generator) -> Values:
    step = max(1, _MAX_CELLS // len(values))
    blocks = []
    for start in range(0, NUM_RESAMPLES, step):
        num_rows = min(step, NUM_RESAMPLES - start)
        blocks.append(statistic(values[generator.integers(0, len(values), (num_rows, len(values)))]))
    return np.concatenate(blocks)


def _percentiles(found: Values, confidence: float) -> Interval:
    tail = 50 * (1 - confidence)
    low, high = np.percentile(found, [tail, 100 - tail])
    return Interval(float(low), float(high))
