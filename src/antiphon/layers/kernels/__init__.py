"""Triton kernels. Each stands beside a torch twin; nothing here is imported before it is known that Triton is there."""

from importlib.util import find_spec


def has_triton() -> bool:
    """Whether the kernels of this package can be imported."""
    return find_spec("triton") is not None
