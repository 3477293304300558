"""The safetensors files of a checkpoint: one file, or shards with an index; headers first, tensors one at a time."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from antiphon.config.checkpoint_files import read_json_object
from antiphon.core.errors import CheckpointError
from antiphon.models.tensor_names import StoredTensor

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
# The format's words for the types that a checkpoint may hold.
_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
}


class Shards:
    """All tensors of a folder's safetensors files. `headers` is read when it is built, data only by `tensors`."""

    def __init__(self, folder: Path) -> None:
        """Raises CheckpointError for an absent, truncated or corrupt file, and for an index that disagrees."""
        self.folder = folder
        self.headers: dict[str, StoredTensor] = {}
        self._files: dict[str, list[str]] = {}
        index = folder / INDEX
        weight_map = _read_weight_map(index) if index.is_file() else None
        names = sorted(set(weight_map.values())) if weight_map is not None else [SINGLE]
        for name in names:
            if not (folder / name).is_file():
                source = f"named by {INDEX}, " if weight_map is not None else ""
                raise CheckpointError(f"{folder / name}: no such file ({source}part of the weights); download it again")
            self._read_header(name)
        if weight_map is not None:
            self._check_index(weight_map)

    def _read_header(self, file: str) -> None:
        path = self.folder / file
        try:
            with safe_open(path, framework="pt") as opened:
                self._files[file] = list(opened.keys())
                for name in self._files[file]:
                    if name in self.headers:
                        raise CheckpointError(f"{path}: holds {name}, which another shard holds too")
                    piece = opened.get_slice(name)
                    dtype = _DTYPES.get(piece.get_dtype())
                    if dtype is None:
                        raise CheckpointError(
                            f"{path}: {name} is of type {piece.get_dtype()}; quantized weights are not supported"
                        )
                    self.headers[name] = StoredTensor(tuple(piece.get_shape()), dtype)
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{path}: truncated or corrupt ({error}); download it again") from error

    def _check_index(self, weight_map: Mapping[str, str]) -> None:
        where = {name: file for file, names in self._files.items() for name in names}
        absent = sorted(name for name, file in weight_map.items() if where.get(name) != file)
        unnamed = sorted(set(where) - set(weight_map))
        for names, what in ((absent, "named by it are not in their shard"), (unnamed, "of the shards are not in it")):
            if names:
                shown = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
                raise CheckpointError(f"{self.folder / INDEX}: {len(names)} tensors {what}: {shown}")

    def tensors(self, wanted: set[str]) -> Iterator[tuple[str, Tensor]]:
        """Yield the *wanted* tensors one at a time, file by file, as views of the mapped file in host memory."""
        for file, names in self._files.items():
            inside = [name for name in names if name in wanted]
            if inside:
                with safe_open(self.folder / file, framework="pt") as opened:
                    for name in inside:
                        yield name, opened.get_tensor(name)


def _read_weight_map(index: Path) -> dict[str, str]:
    weight_map = read_json_object(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"{index}: section 'weight_map' is missing or empty")
    for name, file in weight_map.items():
        # The files lie beside the index; a path that leads elsewhere is not a checkpoint's.
        if not isinstance(file, str) or Path(file).name != file or not file.endswith(".safetensors"):
            raise CheckpointError(
                f"{index}: {name} is said to lie in {file!r}, expected the name of a .safetensors file"
            )
    return weight_map
