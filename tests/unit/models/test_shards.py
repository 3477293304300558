import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from antiphon.core.errors import CheckpointError
from antiphon.models.shards import INDEX, SINGLE, Shards


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two shards with an index."""
    save_file({"a": torch.arange(6.0).view(2, 3)}, tmp_path / "one.safetensors")
    save_file({"b": torch.ones(4, dtype=torch.bfloat16)}, tmp_path / "two.safetensors")
    write_index(tmp_path, {"a": "one.safetensors", "b": "two.safetensors"})
    return tmp_path


def write_index(folder: Path, weight_map: object) -> None:
    (folder / INDEX).write_text(json.dumps({"weight_map": weight_map}), encoding="utf-8")


def test_headers_are_known_before_any_tensor_is_read(folder: Path) -> None:
    shards = Shards(folder)
    assert shards.headers["a"].shape == (2, 3)
    assert shards.headers["b"].dtype == torch.bfloat16
    tensors = dict(shards.tensors({"a", "b"}))
    assert torch.equal(tensors["a"], torch.arange(6.0).view(2, 3))


def test_only_wanted_tensors_are_read(folder: Path) -> None:
    assert [name for name, _ in Shards(folder).tensors({"b"})] == ["b"]


def test_a_single_file_needs_no_index(tmp_path: Path) -> None:
    save_file({"a": torch.ones(2)}, tmp_path / SINGLE)
    assert list(Shards(tmp_path).headers) == ["a"]


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"model\.safetensors: no such file"):
        Shards(tmp_path)


def test_an_index_that_names_an_absent_shard_is_refused(folder: Path) -> None:
    (folder / "two.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"two\.safetensors: no such file \(named by model\.safetensors\.index"):
        Shards(folder)


def test_a_truncated_shard_is_refused(folder: Path) -> None:
    path = folder / "one.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(CheckpointError, match=r"one\.safetensors: truncated or corrupt"):
        Shards(folder)


@pytest.mark.parametrize("content", [b"", b"\xff" * 64, b'\x05\x00\x00\x00\x00\x00\x00\x00{"a":'])
def test_a_corrupt_shard_is_refused(folder: Path, content: bytes) -> None:
    (folder / "one.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"one\.safetensors: truncated or corrupt"):
        Shards(folder)


def test_an_index_that_disagrees_with_its_shards_is_refused(folder: Path) -> None:
    write_index(folder, {"a": "two.safetensors", "b": "one.safetensors"})
    with pytest.raises(CheckpointError, match=r"2 tensors named by it are not in their shard: a, b"):
        Shards(folder)
    write_index(folder, {"a": "one.safetensors", "c": "two.safetensors"})
    with pytest.raises(CheckpointError, match=r"1 tensors named by it are not in their shard: c"):
        Shards(folder)


@pytest.mark.parametrize("weight_map", [None, {}, {"a": "../one.safetensors"}, {"a": "/etc/passwd"}, {"a": 1}])
def test_an_index_that_leads_elsewhere_is_refused(folder: Path, weight_map: object) -> None:
    write_index(folder, weight_map)
    with pytest.raises(CheckpointError, match=INDEX):
        Shards(folder)


def test_a_name_in_two_shards_is_refused(folder: Path) -> None:
    save_file({"b": torch.ones(4), "a": torch.ones(1)}, folder / "two.safetensors")
    with pytest.raises(CheckpointError, match="holds a, which another shard holds too"):
        Shards(folder)


def test_a_quantized_type_is_refused_by_name(tmp_path: Path) -> None:
    save_file({"a": torch.ones(2, dtype=torch.uint8)}, tmp_path / SINGLE)
    with pytest.raises(CheckpointError, match="a is of type U8; quantized weights are not supported"):
        Shards(tmp_path)
