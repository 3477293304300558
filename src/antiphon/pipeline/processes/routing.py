"""Sticky routing: which worker serves each stage of a request, for as long as the request lives."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from antiphon.core.errors import EngineError
from antiphon.pipeline.processes.layout import Layout


class NoReplicaError(EngineError):
    """A stage that the request needs has no live worker."""

    code = "stage_unavailable"


@dataclass
class Binding:
    """Where a request's stages are. `used`: stages that were given work; `ended`: those of them that are finished.

    The epoch of a session (`is_session`) rises while it lives; the binding has its first.
    """

    workers: Mapping[str, str]  # stage to worker; a stage without a live worker is missing
    epoch: int
    is_session: bool = False
    used: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)

    @property
    def is_over(self) -> bool:
        return bool(self.used) and self.used <= self.ended

    def used_workers(self) -> set[str]:
        return {self.workers[stage] for stage in self.used}


class Router:
    """Binds each request once. A stage is taken from the worker that already serves the request where that holds it,
    else from the worker with the fewest requests; among equals they take turns."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._bindings: dict[str, Binding] = {}
        self._loads: Counter[str] = Counter({worker.name: 0 for worker in layout.workers})
        self._last_bound: Counter[str] = Counter()  # worker to the number of the binding that took it last
        self._num_bindings = 0

    def __len__(self) -> int:
        return len(self._bindings)

    def loads(self) -> dict[str, int]:
        """Requests bound to each worker, whether it has been given work of them or not."""
        return dict(self._loads)

    def request_ids(self) -> list[str]:
        return list(self._bindings)

    def binding(self, request_id: str) -> Binding | None:
        return self._bindings.get(request_id)

    def bind(self, request_id: str, epoch: int, live: Collection[str]) -> Binding:
        """The request's binding; made now, over the workers *live*, if it has none."""
        known = self._bindings.get(request_id)
        if known is not None:
            return known
        self._num_bindings += 1
        binding = self._bindings[request_id] = Binding({}, epoch)
        chosen: dict[str, str] = {}
        for stage in self._layout.stages:
            worker = self._choose(stage, live, set(chosen.values()))
            if worker is not None:
                chosen[stage] = worker
        self._place(binding, chosen)
        return binding

    def use(self, request_id: str, stage: str, live: Collection[str]) -> str:
        """Note that *stage* is given work of this request; returns its worker.

        Until then a worker that is no longer *live* is replaced; from then on the request lives and dies with it.

        Raises:
            NoReplicaError: the stage has no live worker.
        """
        binding = self._bindings[request_id]
        worker = binding.workers.get(stage)
        if stage not in binding.used and worker not in live:
            worker = self._choose(stage, live, binding.used_workers())
            others = {name: at for name, at in binding.workers.items() if name != stage}
            self._place(binding, others if worker is None else {**others, stage: worker})
        if worker is None:
            number = self._layout.stages.index(stage)
            raise NoReplicaError(f"Stage-{number} ({stage}) has no live replica; try again when /health says ready")
        binding.used.add(stage)
        return worker

    def _choose(self, stage: str, live: Collection[str], mine: Collection[str]) -> str | None:
        candidates = [worker.name for worker in self._layout.workers if stage in worker.stages and worker.name in live]
        return min(
            candidates,
            key=lambda name: (name not in mine, self._loads[name], self._last_bound[name]),
            default=None,
        )

    def _place(self, binding: Binding, workers: Mapping[str, str]) -> None:
        for worker in set(binding.workers.values()):
            self._loads[worker] -= 1
        binding.workers = workers
        for worker in set(workers.values()):
            self._loads[worker] += 1
            self._last_bound[worker] = self._num_bindings

    def end_stage(self, request_id: str, stage: str) -> bool:
        """A stage has said its last word; returns whether the request is over everywhere."""
        binding = self._bindings.get(request_id)
        if binding is None:
            return False
        binding.ended.add(stage)
        return binding.is_over

    def release(self, request_id: str) -> Binding | None:
        """Forget a request; None if it is unknown."""
        binding = self._bindings.pop(request_id, None)
        if binding is not None:
            for worker in set(binding.workers.values()):
                self._loads[worker] -= 1
        return binding

    def requests_on(self, worker: str) -> list[str]:
        """Requests with a stage that was given work in *worker*."""
        return [request_id for request_id, binding in self._bindings.items() if worker in binding.used_workers()]
