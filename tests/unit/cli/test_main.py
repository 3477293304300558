import subprocess
import sys
from pathlib import Path

import pytest

import antiphon
from antiphon.cli.main import main


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out.strip() == antiphon.__version__


def test_help_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for args in ([], ["--help"]):
        assert main(args) == 0
        assert 'antiphon generate tiny --prompt "Hello' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (["nope"], "No such command 'nope'"),
        (["generate"], "Missing argument 'MODEL' (see 'antiphon generate --help')"),
        (["generate", "tiny", "--temprature", "1"], "No such option: --temprature"),
        (["generate", "tiny", "--top-k", "many"], "Invalid value for '--top-k'"),
        (["verify", "/"], "no manifest.json here"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], args: list[str], reason: str
) -> None:
    assert main(args) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("antiphon: error: ")
    assert reason in shown.err
    assert shown.err.count("\n") == 1


def test_control_characters_of_a_file_name_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "tiny", "--image", "a\n\x1b[31mb.png"]) == 2
    assert capsys.readouterr().err == "antiphon: error: image a  [31mb.png: No such file or directory\n"


def test_a_group_without_a_command_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoint"]) in (0, 2)
    shown = capsys.readouterr()
    assert "make-tiny" in shown.out + shown.err


def test_importing_the_package_and_its_command_line_does_not_import_torch() -> None:
    code = "import sys, antiphon, antiphon.cli.main; print('torch' in sys.modules, 'numpy' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "False"]


def test_the_package_runs_as_a_module(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "antiphon", "generate", "tiny", "--image", "absent.png"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "antiphon: error: image absent.png: No such file or directory\n"


def test_the_public_names_are_there_when_asked_for() -> None:
    assert antiphon.SamplingParams(temperature=0).temperature == 0
    assert {"Omni", "OmniOutput", "SamplingParams"} <= set(dir(antiphon))
    with pytest.raises(AttributeError, match="'antiphon' has no attribute 'Nope'"):
        antiphon.Nope  # noqa: B018
