"""Weight norm on disk: which weights are stored as magnitude and direction, and how the pair becomes one weight."""

import re
from collections.abc import Mapping
from typing import TypeVar

import torch
from torch import Tensor

V = TypeVar("V")

MAGNITUDE = "parametrizations.weight.original0"
DIRECTION = "parametrizations.weight.original1"
# What older releases of PyTorch called the two; the names inside hift.pt depend on who wrote it.
_OLD_SPELLINGS = ((".weight_g", f".{MAGNITUDE}"), (".weight_v", f".{DIRECTION}"))

TALKER_NORMED = re.compile(r"head_code\.\d+")
# Of the vocoder's convolutions only those on the source's way (source_downs) are plain.
HIFT_NORMED = re.compile(
    r"conv_pre|conv_post|ups\.\d+|f0_predictor\.condnet\.\d+|(source_)?resblocks\.\d+\.convs[12]\.\d+"
)


def on_disk(name: str, normed: re.Pattern[str]) -> tuple[str, ...]:
    """Names under which the parameter *name* is stored: itself, or magnitude and direction."""
    module, _, leaf = name.rpartition(".")
    if leaf == "weight" and normed.fullmatch(module):
        return (f"{module}.{MAGNITUDE}", f"{module}.{DIRECTION}")
    return (name,)


def disk_shapes(shapes: Mapping[str, tuple[int, ...]], normed: re.Pattern[str]) -> dict[str, tuple[int, ...]]:
    """Stored name → shape for parameters given by name → shape; a magnitude has one value per row of dimension 0."""
    stored: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes.items():
        names = on_disk(name, normed)
        if len(names) == 2:
            stored[names[0]] = (shape[0], *(1 for _ in shape[1:]))
        stored[names[-1]] = shape
    return stored


def plain_shapes(stored: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The other way round: parameter name → shape for names as stored."""
    shapes = {}
    for name, shape in stored.items():
        if name.endswith(f".{DIRECTION}"):
            shapes[name.removesuffix(DIRECTION) + "weight"] = shape
        elif not name.endswith(f".{MAGNITUDE}"):
            shapes[name] = shape
    return shapes


def modern_names(tensors: Mapping[str, V]) -> dict[str, V]:
    """The same mapping with PyTorch's older spelling of the pairs replaced by the present one."""
    renamed = {}
    for name, value in tensors.items():
        for old, new in _OLD_SPELLINGS:
            if name.endswith(old):
                name = name.removesuffix(old) + new
        renamed[name] = value
    return renamed


def fold(magnitude: Tensor, direction: Tensor) -> Tensor:
    """Weight g·v/‖v‖ in float32, the norm over all dimensions but the first (for transposed convolutions: inputs).

    Folding in bfloat16 instead would move the Talker's logits.
    """
    v = direction.to(torch.float32)
    norm = v.flatten(1).norm(dim=1).view(-1, *(1 for _ in v.shape[1:]))
    folded: Tensor = v * (magnitude.to(torch.float32) / norm)
    return folded
