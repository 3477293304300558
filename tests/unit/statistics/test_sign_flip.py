import numpy as np
import pytest

from antiphon.statistics.sign_flip import sign_flip_p_value


def test_few_pairs_are_counted_exactly() -> None:
    assert sign_flip_p_value([1.0, 2.0, 3.0]) == pytest.approx(2 / 8)
    assert sign_flip_p_value([1.0] * 6) == pytest.approx(2 / 64)
    assert sign_flip_p_value([1.0, -1.0]) == 1.0


def test_pairs_without_a_difference_say_nothing() -> None:
    assert sign_flip_p_value([]) == 1.0
    assert sign_flip_p_value([0.0] * 50) == 1.0
    assert sign_flip_p_value([0.0] * 50 + [1.0] * 6) == sign_flip_p_value([1.0] * 6)


def test_many_pairs_are_drawn_with_a_seed() -> None:
    values = np.random.default_rng(1).normal(0.3, 1, 60).tolist()
    assert sign_flip_p_value(values, seed=3) == sign_flip_p_value(values, seed=3)
    assert 0 < sign_flip_p_value(values) < 0.1
    assert sign_flip_p_value([0.1] * 40) == pytest.approx(1 / 10_001)


def test_without_a_difference_one_run_in_twenty_is_called_different() -> None:
    generator = np.random.default_rng(0)
    found = [sign_flip_p_value(generator.normal(0, 1, 10).tolist()) for _ in range(400)]
    assert np.mean([value <= 0.05 for value in found]) == pytest.approx(0.05, abs=0.03)
