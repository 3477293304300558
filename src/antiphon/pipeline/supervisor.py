"""Starts the worker processes of a layout, carries messages between them and the front, and replaces those that die.

One thread does all of it; it sleeps in poll() on the workers' lines, on their process descriptors and on a waker. When
a worker dies, exactly the requests that were given work there end, each with its error; everything else goes on. What
`health` says is judged at the moment of asking.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence

from antiphon.core.errors import AntiphonError, CapacityError, EngineError
from antiphon.engine.counters import Observation
from antiphon.pipeline.connectors.segment_names import reap_segments
from antiphon.pipeline.health import Health, assess
from antiphon.pipeline.messages import Abort, Command, FrontMessage
from antiphon.pipeline.processes.child import WORKER_COMMAND, Child
from antiphon.pipeline.processes.control import ModelSpec, Status
from antiphon.pipeline.processes.fleet import Fleet, SupervisorSettings
from antiphon.pipeline.processes.front_socket import FrontSocket
from antiphon.pipeline.processes.layout import Layout, WorkerPlan
from antiphon.pipeline.processes.waker import Waker
from antiphon.pipeline.processes.worker_state import WorkerState

_LOOK_AROUND_S = 1.0
_MAX_LETTERS = 65_536  # commands that may wait for the thread


class Supervisor:
    """The workers of one layout. Everything public may be called from any thread.

    Args:
        layout: which worker holds what.
        model: what they load.
        emit: takes what the stages say of requests; called on the supervisor's thread, must not block.
        report: takes lines about starts and deaths, for people; as *emit*.
        command: runs a worker.
    """

    def __init__(
        self,
        layout: Layout,
        model: ModelSpec,
        emit: Callable[[FrontMessage], None],
        *,
        settings: SupervisorSettings | None = None,
        report: Callable[[str], None] = lambda _: None,
        command: Sequence[str] = WORKER_COMMAND,
    ) -> None:
        self._layout = layout
        self._emit = emit
        self._command = tuple(command)
        self._front = FrontSocket()
        self._fleet = Fleet(
            layout,
            model,
            settings or SupervisorSettings(),
            line=self._front.send,
            spawn=self._spawn,
            report=report,
        )
        self._changed = threading.Condition(threading.RLock())  # guards all below and the fleet; told of every turn
        self._letters: deque[tuple[str, object]] = deque()
        self._waker = Waker()
        self._thread = threading.Thread(target=self._run, name="antiphon-supervisor", daemon=True)
        self._is_draining = self._is_shut = self._has_stopped = False
        self._kill_at_s: float | None = None  # set when stopping

    def start(self, timeout_s: float) -> None:
        """Start all workers and wait until they are ready.

        Raises:
            EngineError: they are not in time, or one died; all are ended again.
            AntiphonError: a worker cannot build its stages; as it said.
        """
        reap_segments()
        self._thread.start()
        fleet = self._fleet
        with self._changed:
            self._changed.wait_for(lambda: fleet.has_been_ready or fleet.start_error or self._has_stopped, timeout_s)
            error: AntiphonError | None = fleet.start_error
            if error is None and not fleet.has_been_ready:
                late = ", ".join(
                    f"{name} ({record.progress or record.state.value})"
                    for name, record in fleet.records.items()
                    if record.state is not WorkerState.READY
                )
                error = EngineError(f"the workers did not become ready within {timeout_s:g} s: {late}")
        if error is not None:
            self.stop(timeout_s=0)
            raise error

    def send(self, command: Command) -> None:
        """Queue a command to the worker that its request is bound to; never blocks. Aborts never fail.

        Raises:
            NoReplicaError: the stage has no live worker at the moment.
            EngineError: the workers are draining or stopped.
            CapacityError: the queue is full.
        """
        with self._changed:
            if not isinstance(command, Abort):
                is_new = not self._fleet.desk.knows(command.request_id)
                if not self._is_running() or (is_new and self._is_shut):
                    raise EngineError("the engine is shutting down; nothing new is taken")
                if len(self._letters) >= _MAX_LETTERS:
                    raise CapacityError(f"{len(self._letters)} commands wait already; try again later")
            self._letters += self._fleet.desk.command(command, self._fleet.live(), time.monotonic())
        self._waker.wake()

    def ports(self) -> Mapping[str, Callable[[Command], None]]:
        """The way to each stage, for the orchestrator."""
        return dict.fromkeys(self._layout.stages, self.send)

    def replica_of(self, request_id: str, stage: str) -> int:
        """Which replica of *stage* has a request; 0 once it is over."""
        with self._changed:
            worker = self._fleet.desk.worker_of(request_id, stage)
        return 0 if worker is None else self._layout.replica(stage, worker)

    def health(self) -> Health:
        """What is true now: every process is asked, so a silent death shows before anyone else has noticed."""
        with self._changed:
            workers = [record.health() for record in self._fleet.records.values()]
            return assess(self._layout.stages, workers, is_running=self._is_running(), is_draining=self._is_draining)

    def status(self) -> dict[str, Status]:
        """The last gauges and counters of each worker, at most two ticks old."""
        with self._changed:
            return {name: record.status for name, record in self._fleet.records.items()}

    def counters(self) -> dict[str, int]:
        """How often each optimisation was used or fell back, over all workers and all their lives."""
        with self._changed:
            total: Counter[str] = Counter()
            for record in self._fleet.records.values():
                total.update(record.past_counters)
                total.update(record.status.counters)
            return dict(total)

    def take_observations(self) -> tuple[tuple[str, Observation], ...]:
        """What each worker has noted since the last call, at most two ticks late."""
        with self._changed:
            taken = tuple(self._fleet.observations)
            self._fleet.observations.clear()
            return taken

    def positions(self) -> dict[str, int]:
        """The most positions that one sequence of a stage may have: the least that any of its replicas said."""
        with self._changed:
            said = [item for record in self._fleet.records.values() for item in record.positions.items()]
        return {stage: min(most for name, most in said if name == stage) for stage, _ in said}

    @property
    def num_requests(self) -> int:
        with self._changed:
            return self._fleet.desk.num_requests

    def announce_drain(self) -> None:
        """Let `health` say that the end is near; what the front has accepted is still taken until `drain`."""
        with self._changed:
            self._is_draining = True

    def drain(self, timeout_s: float) -> bool:
        """Take nothing new and wait for what is under way; returns whether all of it ended in time."""
        with self._changed:
            self._is_draining = self._is_shut = True
            return self._changed.wait_for(lambda: self._fleet.desk.num_requests == 0, timeout_s)

    def stop(self, timeout_s: float = 5.0) -> None:
        """End all workers: asked first, killed after *timeout_s*. Nothing of theirs is left when this returns."""
        with self._changed:
            if self._has_stopped:
                return
            self._kill_at_s = time.monotonic() + timeout_s
        self._waker.wake()
        if self._thread.ident is not None:
            self._thread.join()
        else:
            self._front.close()
        self._waker.close()

    def _is_running(self) -> bool:
        return self._thread.is_alive() and self._kill_at_s is None

    def _spawn(self, plan: WorkerPlan) -> Child:
        return Child(self._command, self._front.endpoint, plan.name, dict(plan.env))

    def _run(self) -> None:
        try:
            while self._turn():
                self._deliver()
        finally:
            with self._changed:
                for record in self._fleet.records.values():
                    record.end("was ended")
                    if record.process is not None:
                        record.bury()
                    record.state = WorkerState.STOPPED
                self._fleet.outputs += self._fleet.desk.end_all("the engine has stopped; the request has ended")
                self._front.close()
                self._has_stopped = True
                self._changed.notify_all()
            self._deliver()

    def _turn(self) -> bool:
        """Sleep until something happens and deal with it; returns whether to go on."""
        fleet, dead = self._fleet, self._sleep()
        with self._changed:
            now_s = time.monotonic()
            for identity, message in self._front.receive(lambda identity: fleet.record_of(identity) is not None):
                record = fleet.record_of(identity)
                if record is not None:
                    fleet.receive(record, message, now_s)
            while self._letters:
                fleet.tell(*self._letters.popleft())
            for record in fleet.records.values():
                if record.process is not None and record.process.fileno() in dead:
                    fleet.bury(record, now_s)
            if self._kill_at_s is None:
                fleet.keep_time(now_s)
            else:
                self._end_workers(now_s)
            self._changed.notify_all()
            return self._kill_at_s is None or any(record.process is not None for record in fleet.records.values())

    def _sleep(self) -> set[int]:
        """Until something has come; returns the descriptors of processes that have ended."""
        children = {record.process.fileno() for record in self._fleet.records.values() if record.process is not None}
        with self._changed:
            until_s = self._fleet.next_time_s() if self._kill_at_s is None else self._kill_at_s
        timeout_s = min(_LOOK_AROUND_S, until_s - time.monotonic())
        ready = self._front.sleep(timeout_s, {*children, self._waker.fileno()})
        self._waker.rest()
        return ready & children

    def _end_workers(self, now_s: float) -> None:
        assert self._kill_at_s is not None
        self._fleet.stop()
        if now_s >= self._kill_at_s:
            for record in self._fleet.records.values():
                record.end("did not stop in time")

    def _deliver(self) -> None:
        """Outside the lock: whoever takes messages has locks of their own."""
        with self._changed:
            outputs, self._fleet.outputs = self._fleet.outputs, []
        for output in outputs:
            self._emit(output)
