from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from antiphon.core.errors import ConfigError
from antiphon.evals.compare.comparison import Difference, Verdict, compare
from antiphon.evals.compare.reading import ReadItem, ReadReport

WHISPER = {"name": "whisper", "version": "1", "settings": {"beams": "5"}}


def read(
    values: Mapping[str, Mapping[str, float]],
    *,
    name: str = "a.json",
    kind: str = "wer",
    dataset: str = "made",
    scorer: Mapping[str, object] = WHISPER,
    digest: str = "d",
) -> ReadReport:
    items = {item_id: ReadItem(digest, found) for item_id, found in values.items()}
    return ReadReport(path=Path(name), kind=kind, dataset=dataset, scorers={"words": scorer}, run={}, items=items)


def series(values: Sequence[float], metric: str = "wer") -> ReadReport:
    return read({str(place): {metric: float(value)} for place, value in enumerate(values)})


def only(first: ReadReport, second: ReadReport) -> Difference:
    (found,) = compare(first, second).differences
    return found


BASE = np.random.default_rng(0).uniform(0, 0.3, 40)


def test_a_small_difference_that_all_items_share_is_shown() -> None:
    found = only(series(BASE), series(BASE - 0.01))
    assert found.verdict is Verdict.BETTER
    assert found.change == pytest.approx(-0.01)
    assert only(series(BASE), series(BASE + 0.01)).verdict is Verdict.WORSE
    assert only(series(BASE, "sim"), series(BASE + 0.01, "sim")).verdict is Verdict.BETTER


def test_a_difference_that_chance_makes_is_not_shown() -> None:
    noise = np.random.default_rng(1).normal(0, 0.1, 40)
    assert only(series(BASE), series(BASE + noise - noise.mean() + 0.005)).verdict is Verdict.NOT_SHOWN
    assert only(series(BASE), series(BASE)).verdict is Verdict.NOT_SHOWN


def test_one_item_among_many_shows_nothing_however_far_it_is() -> None:
    changed = BASE.copy()
    changed[3] += 5.0
    assert only(series(BASE), series(changed)).verdict is Verdict.NOT_SHOWN


def test_few_items_show_nothing_and_some_figures_have_no_better_way() -> None:
    assert only(series(BASE[:5]), series(BASE[:5] - 0.1)).verdict is Verdict.TOO_FEW
    assert only(series(BASE, "audio_s"), series(BASE + 1, "audio_s")).verdict is Verdict.DIFFERENT


def test_runs_without_a_difference_are_called_different_once_in_twenty() -> None:
    generator, num_shown = np.random.default_rng(2), 0
    for _ in range(120):
        first, second = (generator.random(30) < 0.6 for _ in range(2))
        num_shown += only(series(first, "accuracy"), series(second, "accuracy")).verdict is not Verdict.NOT_SHOWN
    assert num_shown / 120 <= 0.1


def test_only_items_of_both_runs_are_compared() -> None:
    first = read({"a": {"wer": 0.1}, "b": {"wer": 0.9}, "c": {}})
    second = read({"b": {"wer": 0.8}, "c": {"wer": 0.5}, "d": {"wer": 0.0}})
    found = compare(first, second)
    assert (found.num_shared, found.num_only_first, found.num_only_second) == (2, 1, 1)
    (difference,) = found.differences
    assert (difference.count, difference.first, difference.second) == (1, 0.9, 0.8)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"kind": "sim"}, "different kinds: 'wer' and 'sim'"),
        ({"dataset": "else"}, "different data sets: 'made' and 'else'"),
        ({"scorer": {**WHISPER, "version": "2"}}, r"whisper 1 \(beams 5\) and whisper 2 \(beams 5\)"),
        ({"digest": "e"}, "1 items, as 'a', were held against other"),
    ],
)
def test_runs_that_measure_something_else_are_refused(other: dict, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        compare(read({"a": {"wer": 0.1}}), read({"a": {"wer": 0.1}}, name="b.json", **other))


def test_runs_without_a_common_item_are_refused() -> None:
    with pytest.raises(ConfigError, match="no item in common"):
        compare(read({"a": {}}), read({"b": {}}))
