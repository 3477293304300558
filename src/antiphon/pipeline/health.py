"""What can be said truthfully about the workers at this moment."""

from collections.abc import Sequence
from dataclasses import dataclass

from antiphon.pipeline.processes.worker_state import WorkerState


@dataclass(frozen=True, kw_only=True)
class WorkerHealth:
    """One worker. `pid` None: there is no process at the moment."""

    name: str
    stages: tuple[str, ...]
    device: str
    state: WorkerState
    pid: int | None
    num_restarts: int
    progress: str  # what it was doing last while it started
    last_error: str  # why it died last; empty if it has not


@dataclass(frozen=True, kw_only=True)
class StageHealth:
    name: str
    num_replicas: int
    num_ready: int
    num_restarting: int

    @property
    def state(self) -> str:
        """ready, degraded (some replicas are missing), restarting, or down (none will come back)."""
        if self.num_ready == self.num_replicas:
            return "ready"
        if self.num_ready:
            return "degraded"
        return "restarting" if self.num_restarting else "down"


@dataclass(frozen=True, kw_only=True)
class Health:
    """`is_live`: requests succeed now or after a restart. `is_ready`: one that uses all stages can be taken now."""

    is_live: bool
    is_ready: bool
    is_draining: bool
    stages: tuple[StageHealth, ...]
    workers: tuple[WorkerHealth, ...]

    def stage(self, name: str) -> StageHealth:
        return next(stage for stage in self.stages if stage.name == name)


_RETURNING = frozenset({WorkerState.STARTING, WorkerState.WIRING, WorkerState.DRAINING, WorkerState.WAITING})


def assess(
    stage_names: Sequence[str], workers: Sequence[WorkerHealth], *, is_running: bool, is_draining: bool
) -> Health:
    """Judge fail-closed: what does not say that it is ready is not."""
    stages = []
    for name in stage_names:
        replicas = [worker for worker in workers if name in worker.stages]
        stages.append(
            StageHealth(
                name=name,
                num_replicas=len(replicas),
                num_ready=sum(worker.state is WorkerState.READY and worker.pid is not None for worker in replicas),
                num_restarting=sum(
                    worker.state in _RETURNING or (worker.state is WorkerState.READY and worker.pid is None)
                    for worker in replicas
                ),
            )
        )
    return Health(
        is_live=is_running and all(stage.state != "down" for stage in stages),
        is_ready=is_running and not is_draining and all(stage.num_ready for stage in stages),
        is_draining=is_draining,
        stages=tuple(stages),
        workers=tuple(workers),
    )
