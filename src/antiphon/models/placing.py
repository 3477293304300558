"""Put stored tensors into a module built without memory: each goes straight to its place, device and dtype."""

import re
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn

from antiphon.models.tensor_names import Shape
from antiphon.models.weight_norm import disk_shapes, fold, on_disk

M = TypeVar("M", bound=nn.Module)
NEVER = re.compile(r"(?!)")  # no weight of the module is stored as a weight-norm pair


def build_empty(make: Callable[[], M]) -> M:
    """Build a module whose parameters have shapes but no memory."""
    with torch.device("meta"):
        return make()


def parameter_shapes(module: nn.Module) -> dict[str, Shape]:
    return {name: tuple(value.shape) for name, value in module.named_parameters()}


def assign(module: nn.Module, name: str, value: Tensor) -> None:
    """Make *value* itself the parameter *name*; nothing is copied."""
    owner, _, leaf = name.rpartition(".")
    module.get_submodule(owner).register_parameter(leaf, nn.Parameter(value, requires_grad=False))


def finish(module: M, device: torch.device) -> M:
    """Check that nothing was left without memory, and move the small computed tables to *device*."""
    for owner_name, owner in module.named_modules():
        tables = {name: value for name, value in vars(owner).items() if isinstance(value, Tensor)}
        for name, value in (
            *owner.named_parameters(recurse=False),
            *owner.named_buffers(recurse=False),
            *tables.items(),
        ):
            assert not value.is_meta, f"{owner_name}.{name} has no memory: tables must name their device when built"
    return module.to(device).eval()


class Filler:
    """Fills one module from tensors under their stored names, in any order, one at a time.

    Both halves of a weight-norm pair are folded in float32 before the cast; a lone half waits for the other.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        device: torch.device,
        dtype: torch.dtype,
        prefix: str = "",
        normed: re.Pattern[str] = NEVER,
    ) -> None:
        self.module = module
        self._device = device
        self._dtype = dtype
        shapes = parameter_shapes(module)
        self.expected = {prefix + name: shape for name, shape in disk_shapes(shapes, normed).items()}
        self._parameter_of = {prefix + stored: name for name in shapes for stored in on_disk(name, normed)}
        self._pair_of = {
            prefix + stored: tuple(prefix + half for half in on_disk(name, normed))
            for name in shapes
            for stored in on_disk(name, normed)
        }
        self._waiting: dict[str, Tensor] = {}

    def put(self, stored: str, value: Tensor) -> None:
        """Take the tensor stored under one of the `expected` names."""
        pair = self._pair_of[stored]
        if len(pair) == 2:
            other = pair[1] if stored == pair[0] else pair[0]
            if other not in self._waiting:
                self._waiting[stored] = value
                return
            halves = {stored: value, other: self._waiting.pop(other)}
            value = fold(halves[pair[0]], halves[pair[1]])
        # First to the device, then to the dtype: a cast on the host would hold a second copy there.
        assign(self.module, self._parameter_of[stored], value.to(self._device).to(self._dtype))
