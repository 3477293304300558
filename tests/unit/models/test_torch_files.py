import os
from pathlib import Path

import pytest
import torch

from antiphon.core.errors import CheckpointError
from antiphon.models.torch_files import read_torch_file


class Runs:
    """Unpickled by an unsafe loader, this would make a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.folder),)


def test_a_prefix_is_stripped_and_old_names_are_renamed(tmp_path: Path) -> None:
    path = tmp_path / "hift.pt"
    torch.save({"generator.ups.0.weight_g": torch.ones(2, 1, 1), "generator.ups.0.bias": torch.ones(2)}, path)
    read = read_torch_file(path, strip_prefix="generator.")
    assert set(read) == {"ups.0.parametrizations.weight.original0", "ups.0.bias"}


def test_the_old_file_format_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "flow.pt"
    torch.save({"w": torch.arange(3.0)}, path, _use_new_zipfile_serialization=False)
    assert torch.equal(read_torch_file(path)["w"], torch.arange(3.0))


@pytest.mark.parametrize("new_format", [True, False])
def test_a_pickled_object_is_refused_and_does_not_run(tmp_path: Path, new_format: bool) -> None:
    path, trace = tmp_path / "flow.pt", tmp_path / "trace"
    torch.save({"w": Runs(trace)}, path, _use_new_zipfile_serialization=new_format)
    with pytest.raises(CheckpointError, match=r"flow\.pt: damaged, or holds more than tensors and is refused"):
        read_torch_file(path)
    assert not trace.exists()


def test_an_absent_file_says_that_text_works_without_it(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"flow\.pt: no such file; speech needs it"):
        read_torch_file(tmp_path / "flow.pt")


@pytest.mark.parametrize("kept", [0, 1, 40, 300, -50])
def test_a_truncated_file_is_refused(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "flow.pt"
    torch.save({"w": torch.arange(300.0)}, path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(CheckpointError, match=r"flow\.pt: ") as caught:
        read_torch_file(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [torch.ones(2), [torch.ones(2)], {"w": 1.0}, {"state": {"w": torch.ones(1)}}])
def test_anything_but_named_tensors_is_refused(tmp_path: Path, content: object) -> None:
    torch.save(content, tmp_path / "flow.pt")
    with pytest.raises(CheckpointError, match="expected a mapping of names to tensors"):
        read_torch_file(tmp_path / "flow.pt")
