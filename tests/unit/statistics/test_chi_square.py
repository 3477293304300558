"""Chi-square against known quantiles and known laws."""

import numpy as np
import pytest

from antiphon.statistics.chi_square import chi_square_survival, goodness_of_fit, homogeneity


@pytest.mark.parametrize(
    ("statistic", "degrees", "expected"),
    [(3.841459, 1, 0.05), (18.307038, 10, 0.05), (6.634897, 1, 0.01), (124.342113, 100, 0.05), (0.0, 5, 1.0)],
)
def test_tail_probabilities_are_those_of_printed_tables(statistic, degrees, expected) -> None:
    assert chi_square_survival(statistic, degrees) == pytest.approx(expected, rel=1e-5)


def test_p_values_of_the_true_law_are_uniform() -> None:
    draw, probs = np.random.default_rng(1), np.array([0.5, 0.3, 0.15, 0.04, 0.01])
    found = [goodness_of_fit(draw.multinomial(2000, probs), probs).p_value for _ in range(400)]
    assert np.mean(np.array(found) < 0.1) == pytest.approx(0.1, abs=0.05)
    assert np.mean(found) == pytest.approx(0.5, abs=0.06)


def test_a_shifted_law_is_found() -> None:
    draw = np.random.default_rng(2)
    counts = draw.multinomial(20_000, [0.47, 0.33, 0.2])
    assert goodness_of_fit(counts, np.array([0.5, 0.3, 0.2])).p_value < 1e-6


def test_a_forbidden_outcome_is_never_chance() -> None:
    assert goodness_of_fit(np.array([999, 1, 0]), np.array([1.0, 0.0, 0.0])).p_value == 0.0


def test_rare_outcomes_are_pooled() -> None:
    probs = np.full(10_000, 1e-4)
    outcome = goodness_of_fit(np.random.default_rng(3).multinomial(1000, probs), probs)
    assert outcome.degrees < 200
    assert outcome.p_value > 1e-3


def test_a_law_with_one_outcome_decides_nothing() -> None:
    assert goodness_of_fit(np.array([50, 0]), np.array([1.0, 0.0])).degrees == 0


def test_two_samples_of_one_law_agree_and_of_two_laws_do_not() -> None:
    draw = np.random.default_rng(4)
    same = draw.multinomial(5000, [0.6, 0.3, 0.1]), draw.multinomial(3000, [0.6, 0.3, 0.1])
    assert homogeneity(*same).p_value > 1e-3
    assert homogeneity(same[0], draw.multinomial(3000, [0.5, 0.4, 0.1])).p_value < 1e-6


def test_homogeneity_needs_draws() -> None:
    with pytest.raises(ValueError, match="both sides"):
        homogeneity(np.array([1, 2]), np.array([0, 0]))
