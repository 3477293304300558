from pathlib import Path

import pytest

from antiphon.core.errors import ConfigError
from antiphon.evals.datasets import table_rows
from antiphon.evals.datasets.table_rows import read_rows, text_of, texts_of


def test_json_lines_come_with_their_places(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": "x"}\n\n{"a": "y"}\n')
    assert [(where, row["a"]) for where, row in read_rows(path)] == [(f"{path}:1", "x"), (f"{path}:3", "y")]


@pytest.mark.parametrize(("text", "words"), [("{", ":1: not JSON"), ("[]", ":1: each line must be an object")])
def test_broken_lines_are_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(text)
    with pytest.raises(ConfigError, match=words):
        list(read_rows(path))


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text("no table")
    for name in ("t.parquet", "none.jsonl", "none.parquet"):
        with pytest.raises(ConfigError, match=f"{name}: cannot be read"):
            list(read_rows(tmp_path / name))


def test_without_pyarrow_one_line_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_rows, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'antiphon\[eval\]'"):
        list(read_rows(tmp_path / "t.parquet"))


def test_cells_must_be_what_is_needed() -> None:
    assert text_of({"a": "x"}, "a", "here") == "x"
    assert texts_of({"a": ["x"]}, "a", "here") == ["x"]
    with pytest.raises(ConfigError, match="here: needs a, a text"):
        text_of({"a": 3}, "a", "here")
    with pytest.raises(ConfigError, match="here: needs a, a list of texts"):
        texts_of({"a": [3]}, "a", "here")
