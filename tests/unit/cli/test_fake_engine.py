"""The command that serves the Realtime protocol without a model."""

from pathlib import Path

import pytest

from antiphon.cli.main import BAD_INPUT, main


def test_a_missing_script_is_one_line_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--fake-engine", str(tmp_path / "none.yaml")]) == BAD_INPUT
    error = capsys.readouterr().err.strip()
    assert error.count("\n") == 0
    assert "none.yaml" in error


def test_an_unknown_profile_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "ws://127.0.0.1:1", "--profile", "nope"]) == BAD_INPUT
    assert "nope" in capsys.readouterr().err
