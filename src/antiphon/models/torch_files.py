"""The two `.pt` files of Code2Wav: plain tensors only, mapped into memory, never unpickled into objects."""

import pickle
import zipfile
from pathlib import Path

import torch
from torch import Tensor

from antiphon.core.errors import CheckpointError
from antiphon.models.tensor_names import StoredTensor
from antiphon.models.weight_norm import modern_names


def read_torch_file(path: Path, *, strip_prefix: str = "") -> dict[str, Tensor]:
    """Name → tensor of one file, *strip_prefix* removed from names that have it, older weight-norm names renamed.

    Raises:
        CheckpointError: the file is absent, damaged, holds anything but named tensors, or would run code.
    """
    if not path.is_file():
        raise CheckpointError(f"{path}: no such file; speech needs it (text alone does not: --modalities text)")
    try:
        # Only the zip format (PyTorch ≥ 1.6) can be mapped; an older file is read into memory.
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except pickle.UnpicklingError as error:
        reason = str(error).strip().splitlines()[0]
        raise CheckpointError(f"{path}: damaged, or holds more than tensors and is refused ({reason})") from error
    except (RuntimeError, OSError, EOFError, ValueError, KeyError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CheckpointError(f"{path}: truncated or corrupt ({reason}); download it again") from error
    if not isinstance(found, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in found.items()
    ):
        raise CheckpointError(f"{path}: expected a mapping of names to tensors")
    return modern_names({name.removeprefix(strip_prefix): value for name, value in found.items()})


def headers(tensors: dict[str, Tensor]) -> dict[str, StoredTensor]:
    """What the tensors of one file announce."""
    return {name: StoredTensor(tuple(value.shape), value.dtype) for name, value in tensors.items()}
