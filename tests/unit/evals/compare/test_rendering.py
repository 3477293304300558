from pathlib import Path

from antiphon.evals.compare.comparison import compare
from antiphon.evals.compare.reading import ReadItem, ReadReport
from antiphon.evals.compare.rendering import comparison_document, differing_facts, render_comparison


def read(name: str, rate: float, run: dict[str, object]) -> ReadReport:
    items = {str(place): ReadItem("d", {"wer": rate + place / 100}) for place in range(8)}
    scorers = {"words": {"name": "whisper", "version": "1", "settings": {}}}
    return ReadReport(path=Path(name), kind="wer", dataset="made", scorers=scorers, run=run, items=items)


FOUND = compare(read("a.json", 0.1, {"model": "m", "x": {"y": 1}}), read("b.json", 0.2, {"model": "n", "x": {"y": 1}}))


def test_a_page_shows_both_runs_their_difference_and_a_verdict() -> None:
    page = render_comparison(FOUND)
    assert "# wer: a.json → b.json" in page
    assert "8 items in both, 0 only in the first, 0 only in the second." in page
    assert "- model: m → n" in page
    assert "| word errors | 13.50 % | 23.50 % | +10.00 % | 10.00 % … 10.00 % | 0.008 | **worse** |" in page
    assert "Scored by whisper 1." in page


def test_the_document_says_the_same() -> None:
    document = comparison_document(FOUND)
    assert document["items"] == {"shared": 8, "only_first": 0, "only_second": 0}
    assert document["differing"] == {"model": ["m", "n"]}
    assert document["metrics"]["wer"]["verdict"] == "worse"  # type: ignore[index]


def test_facts_that_differ_are_named_down_to_the_leaf_and_counters_are_not() -> None:
    first = {"a": {"b": 1, "counters": {"x": 1}}, "c": 2}
    second = {"a": {"b": 3, "counters": {"x": 9}}, "d": 4}
    assert differing_facts(first, second) == [("a.b", "1", "3"), ("c", "2", "–"), ("d", "–", "4")]
