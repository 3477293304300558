"""Bootstrap intervals: they cover, they repeat, they know when to say nothing."""

import numpy as np
import pytest

from antiphon.statistics.resampling import (
    bootstrap_difference,
    bootstrap_interval,
    bootstrap_ratio,
    row_medians,
)


def test_intervals_hold_the_true_mean_as_often_as_promised() -> None:
    draw = np.random.default_rng(0)
    found = [bootstrap_interval(draw.normal(3, 1, 40), seed=index) for index in range(200)]
    assert np.mean([interval is not None and 3.0 in interval for interval in found]) == pytest.approx(0.95, abs=0.05)


def test_the_same_seed_gives_the_same_interval() -> None:
    values = list(np.random.default_rng(1).exponential(1, 30))
    assert bootstrap_interval(values, row_medians, seed=3) == bootstrap_interval(values, row_medians, seed=3)


def test_a_ratio_of_two_is_found_and_one_of_noise_holds_one() -> None:
    draw = np.random.default_rng(2)
    base = draw.normal(10, 1, 60)
    twice = bootstrap_ratio(base, draw.normal(20, 1, 60))
    assert twice is not None
    assert 2.0 in twice
    assert 1.0 not in twice
    again = bootstrap_ratio(base, draw.normal(10, 1, 60))
    assert again is not None
    assert 1.0 in again


def test_pairs_share_their_noise() -> None:
    draw = np.random.default_rng(3)
    shared = draw.normal(0, 100, 50)
    interval = bootstrap_difference(
        [(value, value + 1 + noise) for value, noise in zip(shared, draw.normal(0, 0.1, 50), strict=True)]
    )
    assert interval is not None
    assert 1.0 in interval
    assert interval.high - interval.low < 0.2


def test_one_value_tells_no_interval() -> None:
    assert bootstrap_interval([1.0]) is None
    assert bootstrap_ratio([1.0], [1.0, 2.0]) is None
    assert bootstrap_ratio([0.0, 0.0], [1.0, 2.0]) is None
