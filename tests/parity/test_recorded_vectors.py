"""Replays the recorded outputs of the reference implementation: the proof that the published checkpoint will work."""

import json
import tarfile
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from antiphon.offline.verify.runner import run_verify

ARCHIVE = Path(__file__).parent.parent / "golden.tar.xz"
UNUSED_TENSOR = "tts.model.embed_tokens.weight"  # in the checkpoint, never used by the model, left out of the archive

GROUPS = (
    "inputs.json",
    "01_*",
    "02_*",
    "03_*",
    "04_*",
    "05_*",
    "06_*",
    "07_*",
    "08_duplex/*",
    "08_duplex_*",
    "09_*",
    "10_*",
)


@pytest.fixture(scope="session")
def recorded_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked set, with zeros for the one unused tensor."""
    folder = tmp_path_factory.mktemp("recorded")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(folder)
    checkpoint = folder / "checkpoint"
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))["tts_config"]
    shard = (
        checkpoint / json.loads((checkpoint / "model.safetensors.index.json").read_text())["weight_map"][UNUSED_TENSOR]
    )
    with safe_open(shard, framework="pt") as reader:
        tensors = {name: reader.get_tensor(name) for name in reader.keys()}  # noqa: SIM118
    tensors[UNUSED_TENSOR] = torch.zeros(32_000, config["hidden_size"], dtype=torch.bfloat16)
    save_file(tensors, shard)
    return folder


@pytest.mark.parametrize("group", GROUPS)
def test_every_case_of_a_group_gives_what_was_recorded(recorded_set: Path, group: str) -> None:
    results = list(run_verify(recorded_set, device=torch.device("cpu"), only=group))
    failures = {result.file: result.failures for result in results if not result.passed}
    assert results
    assert failures == {}


def test_the_groups_cover_every_recorded_file(recorded_set: Path) -> None:
    files = [entry["file"] for entry in json.loads((recorded_set / "manifest.json").read_text())["files"]]
    assert [file for file in files if not any(fnmatchcase(file, group) for group in GROUPS)] == []
