import shutil
from pathlib import Path

import pytest

from antiphon.cli.main import main
from antiphon.config.checkpoint_files import TOKEN2WAV


def test_make_tiny_writes_a_checkpoint_that_inspect_finds_complete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new [bold] model"
    assert main(["checkpoint", "make-tiny", str(folder), "--seed", "3"]) == 0
    assert "tiny checkpoint, 8." in capsys.readouterr().out
    assert main(["checkpoint", "inspect", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "thinker: language model" in shown
    assert "[bold]" in shown
    assert "complete: every tensor and file is in its place" in shown


def test_inspect_names_what_is_missing_and_exits_with_2(
    tiny_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(tiny_checkpoint, tmp_path / "copy"))
    (folder / TOKEN2WAV / "hift.pt").unlink()
    assert main(["checkpoint", "inspect", str(folder)]) == 2
    shown = capsys.readouterr()
    assert "hift.pt: no such file" in shown.out
    assert "talker" in shown.out
    assert shown.err.endswith("not a complete checkpoint; what is wrong is listed above\n")


@pytest.mark.parametrize("command", ["inspect", "make-tiny"])
def test_an_error_is_one_line_and_exit_code_2(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["checkpoint", command, str(tmp_path)]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith(f"antiphon: error: {tmp_path}: ")
    assert shown.err.count("\n") == 1
    assert shown.out == ""


def test_a_negative_seed_is_refused(tmp_path: Path) -> None:
    assert main(["checkpoint", "make-tiny", str(tmp_path / "new"), "--seed", "-1"]) == 2
    assert not (tmp_path / "new").exists()
