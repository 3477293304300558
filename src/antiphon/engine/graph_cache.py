"""Captured launches, one per key: replayed where they exist, run plainly where they do not, always counted."""

from collections.abc import Callable, Hashable
from typing import Any

import torch

from antiphon.engine.counters import Counters
from antiphon.engine.device_stream import DeviceStream

WARM_UP_RUNS = 2  # before a capture: lazily made handles and autotuning must not land in it


class GraphCache:
    """CUDA graphs of functions that read and write persistent buffers only.

    Captures happen in `prepare`, before the stage reports ready; a key that was never prepared, or whose capture
    failed, runs the same function plainly and is counted as a fall-back. On a CPU every run is plain.
    """

    def __init__(self, name: str, stream: DeviceStream, counters: Counters, *, enabled: bool, pool: Any = None) -> None:
        self.name = name
        self.stream = stream
        self.counters = counters
        self.enabled = enabled and stream.device.type == "cuda"
        self._pool = pool
        self._graphs: dict[Hashable, torch.cuda.CUDAGraph] = {}
        self._failed: set[Hashable] = set()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._graphs

    def __len__(self) -> int:
        return len(self._graphs)

    def prepare(self, key: Hashable, run: Callable[[], None]) -> bool:
        """Warm *run* up and capture it under *key*. It is executed a few times: its buffers must hold harmless values.

        Returns whether a graph exists now. A failed capture leaves the plain path in use.
        """
        with self.stream.active():
            if not self.enabled:
                run()
                return False
            for _ in range(WARM_UP_RUNS):
                run()
        assert self.stream.cuda is not None
        self.stream.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            # thread_local: another thread's CUDA calls must not break a capture.
            with (
                torch.inference_mode(),
                torch.cuda.graph(graph, pool=self._pool, stream=self.stream.cuda, capture_error_mode="thread_local"),
            ):
                run()
        except RuntimeError as error:  # torch raises nothing narrower when an operation cannot be captured
            self._failed.add(key)
            self.counters.fall_back(f"{self.name}_graph", f"capture failed: {str(error).splitlines()[0][:80]}")
            return False
        if self._pool is None:
            self._pool = graph.pool()
        self._graphs[key] = graph
        return True

    def run(self, key: Hashable, run: Callable[[], None]) -> None:
        """Replay *key*, or call *run*; must be called inside `stream.active()`."""
        graph = self._graphs.get(key)
        if graph is not None:
            graph.replay()
            self.counters.use(f"{self.name}_graph")
            return
        if self.enabled:
            self.counters.fall_back(f"{self.name}_graph", "capture failed" if key in self._failed else "not captured")
        run()
