"""Distributions of reports."""

import numpy as np
import pytest

from antiphon.bench.percentiles import describe, percent_word, percentile


@pytest.mark.parametrize("percent", [0, 1, 25, 50, 90, 99, 99.9, 100])
def test_percentiles_are_interpolated_linearly(percent: float) -> None:
    values = [5.0, 1.0, 9.0, 2.0, 2.5, 7.0]
    assert percentile(values, percent) == pytest.approx(float(np.percentile(values, percent)), rel=1e-12)


def test_one_value_is_every_percentile() -> None:
    assert percentile([3.0], 99) == 3.0


def test_no_values_have_no_distribution() -> None:
    assert describe([], (99,)) is None


def test_a_distribution_has_mean_median_and_what_was_asked() -> None:
    found = describe([1.0, 2.0, 6.0], (0, 100))
    assert found is not None
    assert (found.count, found.mean, found.median, found.percentiles) == (3, 3.0, 2.0, ((0, 1.0), (100, 6.0)))


def test_whole_percentiles_are_spelled_without_a_point() -> None:
    assert [percent_word(percent) for percent in (99.0, 99.9, 50)] == ["99", "99.9", "50"]
