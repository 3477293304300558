import shutil
from pathlib import Path

import pytest
import torch

from antiphon.config.checkpoint_files import TOKEN2WAV
from antiphon.core.errors import CheckpointError
from antiphon.offline.inspect import inspect_checkpoint


@pytest.fixture
def copy(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_checkpoint, tmp_path / "copy"))


def test_parts_add_up_to_what_the_files_hold(tiny_checkpoint: Path) -> None:
    report = inspect_checkpoint(tiny_checkpoint)
    parts = {part.name: part for part in report.parts}
    assert report.is_complete
    assert parts["never used"].num_tensors == 5
    assert parts["thinker: audio projection"].num_tensors == 4
    assert parts["code2wav: vocoder"].num_tensors == 328
    assert parts["talker"].num_bytes == 2 * parts["talker"].num_parameters


def test_missing_files_are_listed_and_the_rest_is_shown(copy: Path) -> None:
    for file in ("flow.yaml", "campplus.onnx"):
        (copy / TOKEN2WAV / file).unlink()
    (copy / "tokenizer.json").unlink()
    report = inspect_checkpoint(copy)
    assert not report.is_complete
    assert len(report.parts) == 7
    for file in ("flow.yaml", "campplus.onnx", "tokenizer.json"):
        assert any(file in problem for problem in report.problems)


def test_wrong_names_are_reported_not_raised(copy: Path) -> None:
    flow = torch.load(copy / TOKEN2WAV / "flow.pt", weights_only=True)
    flow["surplus"] = flow.pop("encoder_proj.bias")
    torch.save(flow, copy / TOKEN2WAV / "flow.pt")
    report = inspect_checkpoint(copy)
    assert not report.is_complete
    assert report.accounts[1].missing == ("encoder_proj.bias",)
    assert report.accounts[1].unexpected == ("surplus",)


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"has no config\.json"):
        inspect_checkpoint(tmp_path)
