from pathlib import Path

import pytest

from antiphon.core.errors import CheckpointError
from antiphon.pipeline import source
from antiphon.pipeline.source import cache_folder, local_folder, resolve_source


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_folder_is_taken_as_it_is(tiny_checkpoint: Path) -> None:
    assert resolve_source(tiny_checkpoint) == tiny_checkpoint
    assert resolve_source(str(tiny_checkpoint)) == tiny_checkpoint  # with a blank and a letter beyond ASCII


def test_a_folder_wins_over_a_hub_id_of_the_same_spelling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "org" / "model").mkdir(parents=True)
    (tmp_path / "org" / "model" / "config.json").write_text("{}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert resolve_source("org/model") == Path("org/model")


@pytest.mark.parametrize("name", ["./org/model", "nowhere", "a/b/c", "/org/model", "", "mödel/x"])
def test_what_is_neither_folder_nor_hub_id_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="give the folder"):
        resolve_source(name)


def test_tiny_is_made_once_in_the_users_cache(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = local_folder("tiny")
    assert folder.parent == own_cache / "antiphon"
    made = (folder / "config.json").stat().st_mtime_ns
    assert resolve_source("tiny") == folder
    assert (folder / "config.json").stat().st_mtime_ns == made
    assert [entry.name for entry in folder.parent.iterdir()] == [folder.name]


def test_a_cache_that_cannot_be_written_says_what_to_do(own_cache: Path) -> None:
    own_cache.write_text("a file in the way", encoding="utf-8")
    with pytest.raises(CheckpointError, match="set XDG_CACHE_HOME"):
        local_folder("tiny")


def test_a_relative_cache_variable_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert cache_folder() == Path.home() / ".cache" / "antiphon"


def test_without_a_network_the_hub_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(CheckpointError, match="the hub cannot be reached and has nothing cached"):
        resolve_source("somebody/nothing")


def test_only_files_that_the_loader_reads_are_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: dict[str, object] = {}

    def fetch(hub_id: str, *, allow_patterns: list[str]) -> str:
        asked.update(hub_id=hub_id, allow_patterns=allow_patterns)
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    assert resolve_source(source.HUB_ID) == tmp_path
    assert asked["hub_id"] == "openbmb/MiniCPM-o-4_5"
    assert "*.py" not in asked["allow_patterns"]  # type: ignore[operator]
