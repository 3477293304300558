"""Chooses how float32 products are computed on CUDA, for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def float32_precision(*, tf32: bool) -> Iterator[None]:
    """Matrix products and convolutions inside use TF32, or plain float32; what was set before comes back.

    PyTorch's switches are global and its default is mixed (convolutions TF32, products not), so both are always set.
    Only the device-loop thread may use this. A captured graph keeps what was set at its capture.
    """
    wanted = "tf32" if tf32 else "ieee"
    products = torch.backends.cuda.matmul
    convolutions = torch.backends.cudnn.conv  # type: ignore[attr-defined]  # made when the module is first asked for it
    before = products.fp32_precision, convolutions.fp32_precision
    products.fp32_precision = convolutions.fp32_precision = wanted
    try:
        yield
    finally:
        products.fp32_precision, convolutions.fp32_precision = before
