"""Which files are results, and which of several lines is meant."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon.bench.compare.result_reading import read_result
from antiphon.core.errors import ConfigError

LEVEL = {"completed": 1, "duration": 1.0}


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., str]:
    """Writes a document, and gives the path."""

    def write(name: str, *documents: dict[str, Any]) -> str:
        path = tmp_path / name
        path.write_text("\n".join(json.dumps(document) for document in documents), encoding="utf-8")
        return str(path)

    return write


def test_one_level_is_its_own_facts(save) -> None:
    result = read_result(save("a.json", {"backend": "x", **LEVEL}))
    assert result.levels == (result.facts,)


def test_levels_stand_apart_from_the_facts(save) -> None:
    result = read_result(save("a.json", {"backend": "x", "levels": [LEVEL, LEVEL]}))
    assert result.facts == {"backend": "x"}
    assert len(result.levels) == 2


def test_one_of_several_lines_must_be_named(save) -> None:
    path = save("a.json", {**LEVEL, "label": "old"}, {**LEVEL, "label": "new"})
    assert read_result(f"{path}#2").facts["label"] == "new"
    with pytest.raises(ConfigError, match=r"holds 2 results; name one, as .*#2"):
        read_result(path)
    with pytest.raises(ConfigError, match="no such result"):
        read_result(f"{path}#3")


@pytest.mark.parametrize("content", ["", "[]", "[1]", "{", '{"a": 1}'])
def test_what_is_no_result_is_refused(tmp_path, content) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match="not a result file"):
        read_result(str(path))


def test_a_missing_file_is_named(tmp_path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_result(str(tmp_path / "none.json"))
