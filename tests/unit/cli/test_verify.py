import json
from pathlib import Path

import pytest

from antiphon.cli.main import main


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A set whose only file nobody knows."""
    (tmp_path / "99_new.json").write_text("{}")
    (tmp_path / "inputs.json").write_text("{}")
    (tmp_path / "manifest.json").write_text(json.dumps({"files": [{"file": "99_new.json"}]}))
    return tmp_path


def test_a_case_it_does_not_know_is_a_miss(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(recorded)]) == 1
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith("MISS  99_new.json")
    assert "a recorded case this version does not know" in second
    assert last == "0 of 1 recorded files reproduced"


def test_a_pattern_that_matches_nothing_is_a_mistake(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(recorded), "--only", "07*"]) == 2
    assert "no recorded file matches '07*'" in capsys.readouterr().err
