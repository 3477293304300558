import numpy as np
import pytest
from eval_scores import scored

from antiphon.evals.report.summary import corpus_rate, figures_of, groups_of


def test_means_medians_and_counts_are_of_the_items_that_have_a_value() -> None:
    items = [scored("a", {"wer": 0.0}), scored("b", {"wer": 0.1}), scored("c", {"wer": 0.5}), scored("d", {})]
    figure = figures_of(items, 0)["wer"]
    assert (figure.count, figure.mean, figure.median) == (3, pytest.approx(0.2), 0.1)
    assert figure.interval is not None
    assert 0.0 <= figure.interval.low < 0.2 < figure.interval.high <= 0.5


def test_the_interval_depends_on_the_seed_alone_and_one_item_has_none() -> None:
    items = [scored(str(place), {"sim": place**2 / 997}) for place in range(30)]
    assert figures_of(items, 1) == figures_of(items, 1)
    assert figures_of(items, 1) != figures_of(items, 2)
    assert figures_of(items[:1], 1)["sim"].interval is None


def test_nineteen_of_twenty_intervals_hold_the_true_mean() -> None:
    generator, hits = np.random.default_rng(5), 0
    for seed in range(200):
        items = [scored(str(place), {"accuracy": value}) for place, value in enumerate(generator.random(60) < 0.7)]
        interval = figures_of(items, seed)["accuracy"].interval
        assert interval is not None
        hits += 0.7 in interval
    assert hits / 200 == pytest.approx(0.95, abs=0.04)


def test_groups_are_broken_down_by_what_is_right_or_wrong() -> None:
    items = [
        scored("a", {"accuracy": 1.0, "audio_s": 2.0}, groups={"task": "x"}),
        scored("b", {"accuracy": 0.0}, groups={"task": "y"}),
        scored("c", {"accuracy": 0.0}, groups={"task": "x"}),
    ]
    rows = groups_of(items, 0)["task"]
    assert {name: row["accuracy"].mean for name, row in rows.items()} == {"x": 0.5, "y": 0.0}
    assert list(rows["x"]) == ["accuracy"]


def test_the_corpus_rate_weighs_by_words() -> None:
    items = [scored("a", {"wer": 1.0}, details={"num_units": 1}), scored("b", {"wer": 0.0}, details={"num_units": 9})]
    assert corpus_rate(items) == pytest.approx(0.1)
    assert corpus_rate([scored("a", {"sim": 1.0})]) is None
