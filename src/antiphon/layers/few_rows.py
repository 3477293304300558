"""Products of a few rows with what stands around them in one launch: where the device has the kernels.

The torch twin is the plain path of `StackedDecoder`.
"""

from typing import Protocol

import torch
from torch import Tensor

from antiphon.layers.kernels import has_triton


class FewRowsProducts(Protocol):
    """The Triton twins, for one decoder on one stream.

    Attributes:
        max_rows: launches of more rows take the plain path, whose library kernels are then as good.
    """

    max_rows: int

    def norm_product(self, x: Tensor, norm: Tensor, weight: Tensor, eps: float) -> Tensor: ...

    def norm_gated_product(self, x: Tensor, norm: Tensor, gate_up: Tensor, eps: float) -> Tensor: ...

    def add_product(self, x: Tensor, inner: Tensor, weight: Tensor) -> Tensor: ...


def load_few_rows(hidden_size: int, *, device: torch.device) -> FewRowsProducts | None:
    """The kernels for a decoder of *hidden_size*, or None without Triton."""
    if not has_triton():
        return None
    # Imported here: a machine without Triton must be able to import this module.
    from antiphon.layers.kernels.few_rows import FewRowsKernels

    return FewRowsKernels(hidden_size, device=device)
