import os
from pathlib import Path

import pytest

from antiphon.audio.source import open_source, source_name
from antiphon.core.errors import MediaError


def test_bytes_and_files_are_opened_alike(tmp_path: Path) -> None:
    path = tmp_path / "clip"
    path.write_bytes(b"abc")
    for source in (path, str(path), b"abc"):
        with open_source(source, "audio") as file:
            assert file.read() == b"abc"


@pytest.mark.parametrize("kind", ["image", "audio", "video"])
def test_an_empty_input_is_named(tmp_path: Path, kind: str) -> None:
    (tmp_path / "nothing").touch()
    with pytest.raises(MediaError, match=f"{kind} .*nothing: is empty"):
        open_source(tmp_path / "nothing", kind)
    with pytest.raises(MediaError, match=f"the {kind} is empty"):
        open_source(b"", kind)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, reason in (
        (tmp_path / "absent", "No such file"),
        (tmp_path, "is a folder"),
        (tmp_path / "pipe", "not a regular file"),
        ("a\0b", "null"),
    ):
        with pytest.raises(MediaError, match=reason):
            open_source(path, "audio")


def test_a_source_is_called_by_its_path_or_its_kind() -> None:
    assert source_name("x.wav", "audio") == "x.wav"
    assert source_name(b"..", "audio") == "the audio"
