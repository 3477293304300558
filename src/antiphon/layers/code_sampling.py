"""Finds the sampling kernel where Triton is installed."""

from typing import Protocol

from torch import Tensor

from antiphon.layers.kernels import has_triton


class SampleCodes(Protocol):
    """Draws from *logits* [B, V] into *out* [B], and advances *rows* (see `code_rows`)."""

    def __call__(self, logits: Tensor, rows: Tensor, rules: Tensor, out: Tensor, *, has_fed: bool) -> None: ...


def load_sampler() -> SampleCodes | None:
    """The kernel, or None without Triton."""
    if not has_triton():
        return None
    # Imported here: a machine without Triton must be able to import this module.
    from antiphon.layers.kernels.code_sampler import sample_codes

    return sample_codes
