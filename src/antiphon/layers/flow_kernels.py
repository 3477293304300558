"""Finds the flow's kernels where Triton is installed."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from antiphon.layers.flow_rows import FlowPlaces
from antiphon.layers.kernels import has_triton


class FlowNorms(Protocol):
    """Norms with what stands before and after them; see `kernels/flow_norms.py`."""

    def add_norm(
        self, x: Tensor, branch: Tensor | None, gate: Tensor, scale: Tensor, shift: Tensor, eps: float
    ) -> Tensor: ...

    def add_norm_windows(
        self,
        x: Tensor,
        branch: Tensor,
        gate: Tensor,
        scale: Tensor,
        shift: Tensor,
        eps: float,
        past: Tensor,
        places: FlowPlaces,
    ) -> Tensor: ...

    def norm_mish_windows(
        self, x: Tensor, scale: Tensor, shift: Tensor, eps: float, past: Tensor, places: FlowPlaces
    ) -> Tensor: ...


class FlowAttention(Protocol):
    """Attention over caches in place; see `kernels/flow_attention.py`."""

    def norm_store(
        self, qkv: Tensor, scale: Tensor, shift: Tensor, eps: float, cache: Tensor, places: FlowPlaces
    ) -> None: ...

    def attend(self, qkv: Tensor, cache: Tensor, places: FlowPlaces, *, tf32: bool) -> Tensor: ...


@dataclass(frozen=True)
class FlowKernels:
    norms: FlowNorms
    attention: FlowAttention


def load_flow_kernels() -> FlowKernels | None:
    """The kernels, or None without Triton."""
    if not has_triton():
        return None
    # Imported here: a machine without Triton must be able to import this module.
    from antiphon.layers.kernels import flow_attention, flow_norms

    return FlowKernels(flow_norms, flow_attention)
