"""One worker as the supervisor knows it over all its lives: state, process, past deaths."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from antiphon.pipeline.health import WorkerHealth
from antiphon.pipeline.processes.control import Status
from antiphon.pipeline.processes.layout import WorkerPlan
from antiphon.pipeline.processes.worker_state import RestartPolicy, WorkerEvent, WorkerState, fire


class WorkerProcess(Protocol):
    """A running process; see `Child`."""

    @property
    def identity(self) -> bytes: ...

    @property
    def pid(self) -> int: ...

    def fileno(self) -> int: ...

    def is_alive(self) -> bool: ...

    def kill(self) -> None: ...

    def reap(self) -> str: ...


@dataclass(eq=False)
class WorkerRecord:
    """Times are on the supervisor's clock."""

    plan: WorkerPlan
    state: WorkerState = WorkerState.WAITING
    process: WorkerProcess | None = None
    num_starts: int = 0
    num_deaths: int = 0  # in a row
    start_at_s: float = 0.0  # when the pause after a death is over
    ready_since_s: float | None = None
    heard_at_s: float = 0.0
    progress: str = ""
    last_error: str = ""
    death_reason: str = ""  # known before it ended
    positions: dict[str, int] = field(default_factory=dict)
    status: Status = field(default_factory=lambda: Status(gauges={}, counters={}))
    past_counters: Counter[str] = field(default_factory=Counter)  # of the lives before this one

    def fire(self, event: WorkerEvent) -> None:
        self.state = fire(self.state, event)

    def begin(self, process: WorkerProcess, now_s: float) -> None:
        """A new life."""
        self.process = process
        self.num_starts += 1
        self.heard_at_s, self.ready_since_s = now_s, None
        self.death_reason, self.progress = "", "starting"

    def end(self, reason: str) -> None:
        """Kill the process; that it is dead will show like any other death."""
        if self.process is not None:
            self.death_reason = self.death_reason or reason
            self.process.kill()

    def bury(self) -> str:
        """The process is dead: wait for it; returns why it died."""
        assert self.process is not None
        manner = self.process.reap()
        self.process = None
        self.past_counters.update(self.status.counters)
        self.status = Status(gauges={}, counters={})
        return self.death_reason or f"died ({manner})"

    def next_pause_s(self, policy: RestartPolicy, now_s: float) -> float | None:
        """Count a death; how long to wait before the next life, None for ever."""
        was_healthy = self.ready_since_s is not None and now_s - self.ready_since_s > policy.healthy_s
        self.num_deaths = 1 if was_healthy else self.num_deaths + 1
        return policy.pause_s(self.num_deaths)

    def health(self) -> WorkerHealth:
        """Asks the kernel whether the process lives."""
        is_alive = self.process is not None and self.process.is_alive()
        return WorkerHealth(
            name=self.plan.name,
            stages=self.plan.stages,
            device=self.plan.device,
            state=self.state,
            pid=self.process.pid if self.process is not None and is_alive else None,
            num_restarts=max(0, self.num_starts - 1),
            progress=self.progress,
            last_error=self.last_error,
        )
