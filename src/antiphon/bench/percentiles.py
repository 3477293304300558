"""Distributions as benchmark reports state them: mean, median and linearly interpolated percentiles."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor
from statistics import fmean


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """What is reported of one metric. `percentiles` pairs the percentile asked for (0 to 100) with its value."""

    count: int
    mean: float
    median: float
    percentiles: tuple[tuple[float, float], ...]


def percentile(values: Sequence[float], percent: float) -> float:
    """The value below which *percent* (0 to 100) of *values* lie, interpolated between the two nearest.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("percentile of no values")
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    below = floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def describe(values: Sequence[float], percents: Sequence[float]) -> Distribution | None:
    """Mean, median and *percents* of *values*; None if there are none."""
    if not values:
        return None
    return Distribution(
        count=len(values),
        mean=fmean(values),
        median=percentile(values, 50),
        percentiles=tuple((percent, percentile(values, percent)) for percent in percents),
    )


def percent_word(percent: float) -> str:
    """99.0 → "99", 99.9 → "99.9": how result keys and tables spell a percentile."""
    return str(int(percent)) if percent == int(percent) else str(percent)
