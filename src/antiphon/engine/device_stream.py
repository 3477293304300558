"""A queue of device work with a priority, and fences that tell when a part of it is done. On a CPU both are idle."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import torch


class Fence(Protocol):
    """Marks a point in a stream."""

    def is_done(self) -> bool:
        """Whether all work before the mark has finished. Never blocks."""
        ...

    def wait(self) -> None:
        """Block the calling thread until it has."""
        ...


class _PassedFence:
    """On a CPU work is finished when it returns."""

    def is_done(self) -> bool:
        return True

    def wait(self) -> None:
        return


class _CudaFence:
    def __init__(self, event: torch.cuda.Event) -> None:
        self.event = event

    def is_done(self) -> bool:
        return bool(self.event.query())  # type: ignore[no-untyped-call]

    def wait(self) -> None:
        self.event.synchronize()


class DeviceStream:
    """One stage's stream. A lower *priority* number goes first (CUDA's convention: −5 … 0)."""

    def __init__(self, device: torch.device, *, priority: int = 0) -> None:
        self.device = device
        self.cuda: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self.cuda = torch.cuda.Stream(device=device, priority=priority)  # type: ignore[no-untyped-call]

    @contextmanager
    def active(self) -> Iterator[None]:
        """Work issued inside runs on this stream, without autograd."""
        with torch.inference_mode():
            if self.cuda is None:
                yield
            else:
                with torch.cuda.stream(self.cuda):
                    yield

    def fence(self) -> Fence:
        """Mark the work issued so far."""
        if self.cuda is None:
            return _PassedFence()
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(self.cuda)
        return _CudaFence(event)

    def follow(self, fence: Fence) -> None:
        """Let work issued from now on start only after *fence*; the calling thread does not wait."""
        if self.cuda is not None and isinstance(fence, _CudaFence):
            self.cuda.wait_event(fence.event)
