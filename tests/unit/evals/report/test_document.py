import json
from pathlib import Path

import pytest
from eval_scores import report_of, scored

from antiphon.core.errors import ConfigError
from antiphon.evals.compare.reading import read_report
from antiphon.evals.report.document import render_json, report_document, write_text

ITEMS = [
    scored("a", {"wer": 0.5}, details={"num_units": 4, "heard": "x"}, groups={"kind": "k"}),
    scored("b", {}, error="timed out"),
    scored("c", {}, problems={"words": "it has no sound"}),
]


def test_a_document_holds_scorers_figures_and_every_item() -> None:
    document = json.loads(render_json(report_document(report_of(ITEMS))))
    assert document["scorers"] == {"words": {"name": "fake", "version": "1", "settings": {}}}
    assert document["counts"] == {"items": 3, "failed": 1, "not_scored": 1}
    assert document["metrics"]["wer"] == {"count": 1, "mean": 0.5, "median": 0.5, "low": None, "high": None}
    assert document["wer_corpus"] == 0.5
    assert [item["id"] for item in document["items"]] == ["a", "b", "c"]
    assert document["items"][1] == {"id": "b", "truth": "same", "error": "timed out"}


def test_a_document_is_read_back_for_comparing(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "r.json"
    write_text(path, render_json(report_document(report_of(ITEMS))))
    found = read_report(path)
    assert (found.kind, found.dataset, found.run) == ("wer", "made", {"model": "m"})
    assert found.items["a"].values == {"wer": 0.5}
    assert found.items["b"].values == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "not JSON"), ("{}", "is no report"), ('{"antiphon_eval": 1, "kind": "x"}', "the report is broken")],
)
def test_what_is_no_report_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_report(tmp_path / "r.json")
    with pytest.raises(ConfigError, match="No such file"):
        read_report(tmp_path / "none.json")
