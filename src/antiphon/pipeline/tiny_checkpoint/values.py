"""Random tensors for the tiny checkpoint: each depends on the seed and its own name only, whatever else is drawn."""

from collections.abc import Mapping
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

Values = dict[str, NDArray[np.float32]]
_TABLE_STD = 0.3
_SMALL_STD = 0.1  # of biases, and of norms around one


def generator(seed: int, name: str) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64([seed, crc32(name.encode())]))


def default_value(seed: int, name: str, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """A value that keeps activations at their scale: norms near one, matrices 1/√(inputs), biases small."""
    value: NDArray[np.float32] = generator(seed, name).standard_normal(shape, dtype=np.float32)
    if len(shape) == 1:
        value *= np.float32(_SMALL_STD)
        if name.endswith((".weight", ".alpha")):
            value += np.float32(1.0)
    elif "emb" in name or name.endswith("query"):
        value *= np.float32(_TABLE_STD)
    else:
        value *= np.float32(np.prod(shape[1:]) ** -0.5)
    return value


def default_values(seed: int, shapes: Mapping[str, tuple[int, ...]]) -> Values:
    return {name: default_value(seed, name, shape) for name, shape in shapes.items()}


def split_weight_norm(weight: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Magnitude [rows, 1, …] and direction of *weight*, as weight norm over all but the first dimension stores them."""
    norms = np.sqrt(np.square(weight).reshape(len(weight), -1).sum(axis=1))
    return norms.reshape(-1, *(1 for _ in weight.shape[1:])).astype(np.float32), weight
