"""What becomes of the workers: started, joined, listened to, buried, replaced. Called by the supervisor's thread only.

Time and processes come in from outside, so every course of events can be played in a test.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from antiphon.core.errors import AntiphonError, EngineError, StateError, error_class
from antiphon.engine.counters import MAX_OBSERVATIONS, Observation
from antiphon.pipeline.messages import FrontMessage, RequestOutput, WorkerDied
from antiphon.pipeline.processes.control import (
    AskStatus,
    BuildStages,
    EdgeBroken,
    Hello,
    InletOpened,
    ModelSpec,
    OutletOpened,
    Progress,
    StagesReady,
    StartFailed,
    Status,
    Stop,
    Terminated,
)
from antiphon.pipeline.processes.layout import Layout, WorkerPlan
from antiphon.pipeline.processes.request_desk import Endings, RequestDesk
from antiphon.pipeline.processes.roster import WorkerProcess, WorkerRecord
from antiphon.pipeline.processes.wiring import Wiring
from antiphon.pipeline.processes.worker_state import RestartPolicy, WorkerEvent, WorkerState


@dataclass(frozen=True, kw_only=True)
class SupervisorSettings:
    restarts: RestartPolicy = field(default_factory=RestartPolicy)
    tick_s: float = 1.0  # how often workers are asked for a sign of life
    heartbeat_timeout_s: float = 30.0  # a worker silent for so long is killed
    put_timeout_s: float = 10.0  # how long a piece may wait for room at the next stage
    input_wait_timeout_s: float = 600.0  # a request without any progress for so long ends; 0 waits for ever


class Line(Protocol):
    """The way to one process."""

    def __call__(self, identity: bytes, message: object) -> None:
        """Queue *message*. Raises EngineError if the process has gone or has stopped reading."""
        ...


class Fleet:
    """All workers of a layout and the requests on them.

    Args:
        line: sends to a process.
        spawn: starts the process of a worker.
        report: takes lines for people.

    Attributes:
        outputs: for the front, in order; whoever owns the fleet empties it.
        observations: what each worker noted; as *outputs*, but the oldest go when nobody takes them.
        has_been_ready: all workers were ready once; from then on the dead are replaced.
        start_error: why that cannot be reached.
    """

    def __init__(
        self,
        layout: Layout,
        model: ModelSpec,
        settings: SupervisorSettings,
        *,
        line: Line,
        spawn: Callable[[WorkerPlan], WorkerProcess],
        report: Callable[[str], None],
    ) -> None:
        self._model = model
        self._settings = settings
        self._line = line
        self._spawn = spawn
        self._report = report
        self._wiring = Wiring(layout)
        self._next_tick_s = 0.0
        self.records = {plan.name: WorkerRecord(plan) for plan in layout.workers}
        self.desk = RequestDesk(layout, silence_s=settings.input_wait_timeout_s)
        self.outputs: list[FrontMessage] = []
        self.observations: deque[tuple[str, Observation]] = deque(maxlen=MAX_OBSERVATIONS)
        self.has_been_ready = False
        self.start_error: AntiphonError | None = None

    def live(self) -> set[str]:
        """Workers that may be given new requests."""
        return {name for name, record in self.records.items() if record.state is WorkerState.READY}

    def record_of(self, identity: bytes) -> WorkerRecord | None:
        """The worker whose present process is *identity*."""
        return next(
            (record for record in self.records.values() if record.process and record.process.identity == identity), None
        )

    def tell(self, worker: str, message: object) -> None:
        """Send to a worker. One that cannot be reached is ended; one that is dead needs to hear nothing."""
        record = self.records[worker]
        if record.process is None:
            return
        try:
            self._line(record.process.identity, message)
        except EngineError as error:
            record.end(f"was ended: {error}")

    def next_time_s(self) -> float:
        """When `keep_time` has something to do, at the latest."""
        pauses = [record.start_at_s for record in self.records.values() if record.state is WorkerState.WAITING]
        return min([self._next_tick_s, *pauses])

    def keep_time(self, now_s: float) -> None:
        """Start what is due, ask for signs of life, end what has been silent."""
        for record in self.records.values():
            if record.state is WorkerState.WAITING and record.start_at_s <= now_s:
                self._start(record, now_s)
        if now_s < self._next_tick_s:
            return
        self._next_tick_s = now_s + self._settings.tick_s
        self._apply(self.desk.expire(now_s))
        for record in self.records.values():
            if record.state in (WorkerState.READY, WorkerState.DRAINING):
                self._check_pulse(record, now_s)

    def _start(self, record: WorkerRecord, now_s: float) -> None:
        record.fire(WorkerEvent.PAUSE_OVER)
        try:
            record.begin(self._spawn(record.plan), now_s)
        except OSError as error:  # no memory, no process left: like a death at birth
            self._mourn(record, f"could not start: {error.strerror}", now_s)

    def _check_pulse(self, record: WorkerRecord, now_s: float) -> None:
        if now_s - record.heard_at_s > self._settings.heartbeat_timeout_s:
            record.end(f"was ended: silent for {self._settings.heartbeat_timeout_s:g} s")
        elif record.state is WorkerState.DRAINING and not self.desk.is_busy(record.plan.name):
            self.tell(record.plan.name, Stop())
        else:
            self.tell(record.plan.name, AskStatus())

    def stop(self) -> None:
        """Tell every worker to end, once."""
        for name, record in self.records.items():
            if record.state is not WorkerState.STOPPING:
                record.fire(WorkerEvent.STOP)
                self.tell(name, Stop())

    def receive(self, record: WorkerRecord, message: object, now_s: float) -> None:
        """A worker has said something; a StateError stands for what could not be understood."""
        record.heard_at_s = now_s
        if isinstance(message, RequestOutput):
            if self.desk.expects(message):  # else it is about what has ended meanwhile
                self._obey(self.desk.hear(message, now_s))
                self.outputs.append(message)
        elif isinstance(message, Status):
            record.status = message
            self.observations += ((record.plan.name, item) for item in message.observations)
        elif isinstance(message, InletOpened):
            self._obey(self._wiring.inlet_opened(message))
        elif isinstance(message, OutletOpened):
            self._wiring.outlet_opened(message)
            self._note_wired(now_s)
        elif isinstance(message, EdgeBroken):
            self._break_edge(message)
        elif isinstance(message, WorkerDied):
            record.death_reason = f"was ended by an error: {message.message}"
        elif isinstance(message, StateError):
            record.end(f"was ended: {message}")
        else:
            self._receive_life(record, message, now_s)

    def _receive_life(self, record: WorkerRecord, message: object, now_s: float) -> None:
        name = record.plan.name
        if isinstance(message, Hello):
            order = BuildStages(
                model=self._model,
                stages=record.plan.stages,
                device=record.plan.device,
                peers=record.plan.peers,
                put_timeout_s=self._settings.put_timeout_s,
            )
            self.tell(name, order)
        elif isinstance(message, Progress):
            record.progress = message.text
            self._report(f"{name}: {message.text}")
        elif isinstance(message, StagesReady):
            record.fire(WorkerEvent.STAGES_READY)
            record.positions = message.positions
            if record.state is WorkerState.WIRING:
                self._obey(self._wiring.add(name))
                self._note_wired(now_s)
        elif isinstance(message, StartFailed):
            record.death_reason = f"could not start: {message.message}"
            self.start_error = self.start_error or error_class(message.code)(message.message)
        elif isinstance(message, Terminated):
            record.fire(WorkerEvent.TERMINATED)
            if not self.desk.is_busy(name):
                self.tell(name, Stop())

    def _break_edge(self, message: EdgeBroken) -> None:
        """Nobody knows which requests lost what: the edge ends with its consumer, and with it what was on that."""
        if self._wiring.is_current(message.edge, message.generation):
            record = self.records[self._wiring.consumer(message.edge)]
            record.end(f"was ended, its edge {message.edge} broke: {message.message}")

    def _note_wired(self, now_s: float) -> None:
        for name, record in self.records.items():
            if record.state is WorkerState.WIRING and self._wiring.is_wired(name):
                record.fire(WorkerEvent.WIRED)
                record.ready_since_s, record.progress = now_s, ""
                self._report(f"{name}: ready")
        if all(record.state is WorkerState.READY for record in self.records.values()):
            self.has_been_ready = True

    def bury(self, record: WorkerRecord, now_s: float) -> None:
        """The worker's process has ended: so have the requests on it. Decide when it starts again."""
        reason = record.bury()
        self._apply(self.desk.bury(record.plan.name, reason))
        self._obey(self._wiring.remove(record.plan.name))
        self._mourn(record, reason, now_s)

    def _mourn(self, record: WorkerRecord, reason: str, now_s: float) -> None:
        name, was_terminated = record.plan.name, record.state is WorkerState.DRAINING
        record.fire(WorkerEvent.DIED)
        if record.state is WorkerState.STOPPED:
            return
        record.last_error = reason
        self._report(f"{name}: {reason}")
        if not self.has_been_ready:
            self.start_error = self.start_error or EngineError(f"worker {name} {reason} while it started")
        pause_s = 0.0 if was_terminated else record.next_pause_s(self._settings.restarts, now_s)
        if pause_s is None:
            record.fire(WorkerEvent.GIVEN_UP)
            self._report(f"{name}: died {record.num_deaths} times in a row and stays down")
        else:
            record.start_at_s = now_s + pause_s

    def _apply(self, endings: Endings) -> None:
        self.outputs += endings.failures
        self._obey(endings.letters)

    def _obey(self, orders: Iterable[tuple[str, object]]) -> None:
        for worker, order in orders:
            self.tell(worker, order)
