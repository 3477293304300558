"""Every `antiphon serve` in our documents is a command line that is taken."""

import re
import shlex
from pathlib import Path

import pytest

from antiphon.cli import main as command_line
from antiphon.cli import serve_run

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*")]
_COMMAND = re.compile(r"^\s*(?:\$ )?(antiphon serve(?: [^`#\n]*)?)$", re.MULTILINE)


def commands() -> list[str]:
    found = []
    for path in DOCUMENTS:
        if path.is_file() and path.suffix in (".md", ".sh", ".py", ""):
            text = path.read_text(encoding="utf-8").replace("\\\n", " ")
            found += [match.strip() for match in _COMMAND.findall(text)]
    return sorted(set(found))


def test_there_are_commands() -> None:
    assert commands()


@pytest.mark.parametrize("command", commands())
def test_the_command_is_taken(command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    taken: list[object] = []
    monkeypatch.setattr(serve_run, "run", lambda plan, *, is_check: taken.append(plan))
    words = [str(tmp_path) if word.startswith(("~", "/", "$")) else word for word in shlex.split(command)]
    assert command_line.main(words[1:]) == 0
    assert taken
