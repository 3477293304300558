"""Reads a set of recorded vectors: manifest, inputs, tensors with their tolerances, and the signal generators.

A set is a folder with `manifest.json` (every file, every tensor, its absolute tolerance), `inputs.json` (seeds, sizes
and session arguments) and one folder per recorded function. Seeds and sizes are always read from the set.
"""

import json
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from safetensors import safe_open
from torch import Tensor

from antiphon.core.errors import CheckpointError


def audio_signal(num_samples: int, seed: int, sample_rate_hz: int = 16_000) -> NDArray[np.float32]:
    """The recorded test signal: chirps, vibrato, gating, noise, in 16-bit steps. [num_samples] in [−1, 1]."""
    samples: NDArray[np.float32] = audio_signal_int16(num_samples, seed, sample_rate_hz).astype(
        np.float32
    ) / np.float32(32768)
    return samples


@lru_cache(maxsize=16)
def audio_signal_int16(num_samples: int, seed: int, sample_rate_hz: int = 16_000) -> NDArray[np.int16]:
    """`audio_signal` as 16-bit PCM. A longer signal of the same seed starts with the shorter one."""
    random = np.random.RandomState(seed)
    t = np.arange(num_samples) / sample_rate_hz
    low, high, phase = 110 + 40 * random.rand(), 2600 + 900 * random.rand(), t % 2.5
    growth = (high / low) ** (1 / 2.5)
    y = 0.35 * np.sin(2 * np.pi * low * ((growth**phase - 1) / np.log(growth)))
    y += 0.15 * np.sin(2 * np.pi * (220 + 60 * np.sin(2 * np.pi * 0.7 * t)) * t)
    y *= 0.4 + 0.6 * (np.sin(2 * np.pi * 0.45 * t + 1.0) > -0.4)
    y += 0.01 * random.randn(num_samples)
    samples: NDArray[np.int16] = np.clip(np.round(y * 32767), -32768, 32767).astype(np.int16)
    return samples


def image_pattern(width: int, height: int, seed: int) -> Image.Image:
    """The recorded test picture, RGB."""
    x, y = np.meshgrid(np.arange(width, dtype=np.int64), np.arange(height, dtype=np.int64))
    red = (7 * x + 3 * y + 31 * seed + (x * y) // 97) % 256
    green = (2 * x + 11 * y + 17 * seed + 90 * ((x // 16 + y // 16) % 2)) % 256
    blue = ((x * x) // 53 + (y * y) // 71 + 5 * seed) % 256
    return Image.fromarray(np.stack((red, green, blue), axis=-1).astype(np.uint8))


class GoldenSet:
    """One folder of recorded vectors. Invariant: `manifest` lists every file that is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not (folder / "manifest.json").is_file():
            raise CheckpointError(f"{folder}: no manifest.json here; verify takes a folder of recorded vectors")
        self.manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        self.entries: dict[str, dict[str, Any]] = {entry["file"]: entry for entry in self.manifest["files"]}

    @cached_property
    def inputs(self) -> dict[str, Any]:
        inputs: dict[str, Any] = self.json("inputs.json")
        return inputs

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def json(self, file: str) -> Any:
        """The parsed content of one recorded JSON file."""
        return json.loads((self.folder / file).read_text(encoding="utf-8"))

    def has(self, file: str) -> bool:
        return file in self.entries

    def tensor_names(self, file: str) -> list[str]:
        """Names of all tensors that the manifest records for *file*, in its order."""
        return list(self.entries[file].get("tensors", {}))

    def tensor(self, file: str, name: str) -> Tensor:
        with safe_open(self.folder / file, framework="pt") as reader:
            tensor: Tensor = reader.get_tensor(name)
        return tensor

    def tolerance(self, file: str, name: str) -> float:
        """Absolute tolerance of one recorded tensor (float32 on a CPU); 0 means exact."""
        return float(self.entries[file]["tensors"][name]["atol"])

    def shape(self, file: str, name: str) -> tuple[int, ...]:
        """Full shape of one recorded tensor."""
        return tuple(self.entries[file]["tensors"][name]["shape"])

    def stride(self, file: str, name: str) -> int:
        """A thinned set keeps every *stride*-th value of the flattened tensor; 1 means all of it."""
        return int(self.entries[file]["tensors"][name].get("stride", 1))
