"""The front of all duplex sessions: prepares their input beside the loop, sends it to the stages, and tells what comes.

Units of one session are prepared one after another, those of different sessions on the threads of a bounded pool.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from antiphon.audio.mel import offline_mels
from antiphon.config.checkpoint import ImageConfig
from antiphon.core.errors import AntiphonError, CapacityError, EngineError, StateError, error_class
from antiphon.pipeline.device_loop import CODE2WAV, TALKER, THINKER
from antiphon.pipeline.duplex.running_unit import RunningUnit
from antiphon.pipeline.duplex.session import (
    ContextCut,
    Decided,
    Deliver,
    InputUnit,
    Opened,
    SessionEvent,
    SessionFailed,
    SessionPlan,
    Spoken,
    UnitFailed,
)
from antiphon.pipeline.duplex.session_load import SessionLoad
from antiphon.pipeline.duplex.unit_input import UnitReader
from antiphon.pipeline.messages import (
    Abort,
    Command,
    FrontMessage,
    RequestFailed,
    SessionCancel,
    SessionCut,
    SessionOpened,
    SessionOutput,
    SessionStart,
    SessionTalk,
    SessionUnit,
    SessionVoice,
    UnitDecided,
    UnitDrawn,
    UnitRefused,
    UnitVoiced,
    UnitWritten,
    WorkerDied,
)
from antiphon.prompt.duplex_markup import session_start
from antiphon.prompt.tokenizer import Tokenizer

INTAKE_THREADS = 2
MAX_WAITING_UNITS = 64  # of one session; the sessions send one at a time

Port = Callable[[Command], None]


@dataclass(eq=False)
class _Flight:
    """A session under way. Changed under the front's lock only, but for what its one intake job computes."""

    plan: SessionPlan
    deliver: Deliver
    reader: UnitReader
    stages: tuple[str, ...]
    epoch: int = 0
    waiting: deque[RunningUnit] = field(default_factory=deque)  # those that are not prepared yet
    is_reading: bool = False
    units: dict[tuple[int, int], RunningUnit] = field(default_factory=dict)


class SessionHandle:
    """One session as its owner sees it. Nothing here blocks or raises."""

    def __init__(self, front: "DuplexFront", session_id: str) -> None:
        self._front, self._session_id = front, session_id

    def append(self, unit: InputUnit) -> None:
        """The next unit; what goes wrong with it comes back as an event."""
        self._front.append(self._session_id, unit)

    def cancel(self, epoch: int) -> None:
        """Cut off what is being said. Nothing of older epochs is told any more, what of them was heard stays heard."""
        self._front.cancel(self._session_id, epoch)

    def end_turn(self) -> None:
        """A unit was lost before it came here: what comes next starts clean, as behind one that fails."""
        self._front.end_turn(self._session_id)

    def close(self) -> None:
        """End the session and free everything of it."""
        self._front.close_session(self._session_id)


class DuplexFront:
    """Sessions by id. May be called from any thread; `receive` by whoever brings the stages' messages.

    Args:
        ports: to the worker of each stage.
        tokenizer: the model's.
        image_config: of its pictures.
        num_mel_bins: of its audio encoder.
        clock: seconds; the workers' clock, because deadlines are on it.
        max_sessions: more are refused.
        executor: where features are computed; None: threads of our own.
    """

    def __init__(
        self,
        ports: Mapping[str, Port],
        tokenizer: Tokenizer,
        *,
        image_config: ImageConfig,
        num_mel_bins: int,
        clock: Callable[[], float],
        max_sessions: int,
        executor: Executor | None = None,
    ) -> None:
        self._ports = dict(ports)
        self._tokenizer = tokenizer
        self._image_config, self._num_mel_bins = image_config, num_mel_bins
        self._clock = clock
        self.max_sessions = max_sessions
        self._executor = executor or ThreadPoolExecutor(INTAKE_THREADS, thread_name_prefix="antiphon-units")
        self._lock = threading.RLock()
        self._flights: dict[str, _Flight] = {}
        self._dead_stages: dict[str, str] = {}
        self._is_closed = False
        self._load = SessionLoad()

    def connect(self, ports: Mapping[str, Port]) -> None:
        """Name the workers, where they are known only after the front was made."""
        self._ports = dict(ports)

    @property
    def num_sessions(self) -> int:
        return len(self._flights)

    @property
    def has_room(self) -> bool:
        """Whether one session more would be kept in time, by how long units took of late."""
        projected_s = self.projected_unit_s
        return projected_s is None or projected_s <= self._load.budget_s

    @property
    def projected_unit_s(self) -> float | None:
        """How long units would take with one session more; None: too few came of late."""
        with self._lock:
            now_s = self._clock()
            running_s = [max(u.age_s(now_s) for u in f.units.values()) for f in self._flights.values() if f.units]
            return self._load.projected_s(num_sessions=len(self._flights), now_s=now_s, running_s=running_s)

    def open(self, plan: SessionPlan, deliver: Deliver) -> SessionHandle:
        """Begin a session; `Opened` or `SessionFailed` comes first. Computes features: call it off the event loop.

        Raises:
            CapacityError: too many sessions live.
            EngineError: a stage it needs is dead.
            StateError: its id is in use, or the front is closed.
        """
        stages = (CODE2WAV, TALKER, THINKER) if plan.voice is not None else (THINKER,)
        reader = UnitReader(self._image_config, num_mel_bins=self._num_mel_bins)
        commands = self._opening(plan)
        with self._lock:
            self._require_open(plan, stages)
            self._flights[plan.session_id] = _Flight(plan, deliver, reader, stages)
            try:
                for stage, command in commands:
                    self._ports[stage](command)
            except AntiphonError:
                self._forget(plan.session_id)
                raise
        return SessionHandle(self, plan.session_id)

    def append(self, session_id: str, unit: InputUnit) -> None:
        with self._lock:
            flight = self._flights.get(session_id)
            if flight is None or unit.epoch < flight.epoch:
                return
            if len(flight.waiting) >= MAX_WAITING_UNITS:
                error = CapacityError(f"{MAX_WAITING_UNITS} units of the session wait already; send one at a time")
                flight.deliver(UnitFailed(unit.epoch, unit.number, error.code, str(error)))
                return
            running = RunningUnit(unit, self._clock(), speaks=flight.plan.voice is not None)
            flight.units[unit.epoch, unit.number] = running
            flight.waiting.append(running)
            self._read_next(flight)

    def cancel(self, session_id: str, epoch: int) -> None:
        with self._lock:
            flight = self._flights.get(session_id)
            if flight is None or epoch <= flight.epoch:
                return
            flight.epoch = epoch
            flight.units = {key: unit for key, unit in flight.units.items() if key[0] >= epoch}
            self._send(flight, THINKER, SessionCancel(request_id=session_id, epoch=epoch))

    def end_turn(self, session_id: str) -> None:
        with self._lock:
            flight = self._flights.get(session_id)
            if flight is not None:
                self._send(flight, THINKER, SessionCancel(request_id=session_id, epoch=flight.epoch))

    def close_session(self, session_id: str) -> None:
        with self._lock:
            self._forget(session_id)

    def receive(self, message: FrontMessage) -> None:
        """Take a message of a stage; what is stale, or for nobody here, is dropped."""
        with self._lock:
            if isinstance(message, WorkerDied):
                self._bury(message)
                return
            flight = self._flights.get(message.request_id)
            if flight is None:
                return
            if isinstance(message, RequestFailed):
                self._end(flight, error_class(message.code)(message.message), message.stage)
            elif isinstance(message, SessionOutput):
                for event in self._events(flight, message):
                    flight.deliver(event)

    def close(self) -> None:
        """End all sessions and take no more."""
        with self._lock:
            self._is_closed = True
            for flight in list(self._flights.values()):
                self._end(flight, StateError("the engine is closed"), None)
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _opening(self, plan: SessionPlan) -> list[tuple[str, Command]]:
        """What each stage is told, the Thinker last: the others must know the session when something comes for them."""
        markup = session_start(
            self._tokenizer,
            plan.instructions,
            has_reference=plan.reference is not None,
            first_text=plan.first_text,
        )
        start = SessionStart(
            request_id=plan.session_id,
            epoch=0,
            prefix=tuple(markup.prefix),
            reference=()
            if plan.reference is None
            else tuple(offline_mels(plan.reference, num_bins=self._num_mel_bins)),
            suffix=tuple(markup.suffix),
            window=plan.window,
            speaks=plan.voice is not None,
            seed=plan.seed,
            max_unit_chars=plan.max_unit_chars,
        )
        if plan.voice is None:
            return [(THINKER, start)]
        voice = plan.voice
        speech = SessionVoice(
            request_id=plan.session_id,
            epoch=0,
            voice_key=voice.key,
            voice_codes=voice.features.codes,
            voice_xvector=voice.features.xvector,
            voice_mel=voice.features.mel,
            seed=plan.seed,
            deadline_s=self._clock(),
        )
        talk = SessionTalk(request_id=plan.session_id, epoch=0, sampling=plan.talker, seed=plan.seed)
        return [(CODE2WAV, speech), (TALKER, talk), (THINKER, start)]

    def _read_next(self, flight: _Flight) -> None:
        """Prepare the next unit on the pool, unless one of this session is being prepared."""
        if not flight.is_reading and flight.waiting:
            flight.is_reading = True
            self._executor.submit(self._read, flight, flight.waiting.popleft())

    def _read(self, flight: _Flight, running: RunningUnit) -> None:
        """On the pool."""
        unit = running.unit
        try:
            prepared = flight.reader.read(unit.samples, unit.frames)
            command = SessionUnit(
                request_id=flight.plan.session_id,
                epoch=unit.epoch,
                number=unit.number,
                mel=np.ascontiguousarray(prepared.audio.mel),
                trim_front=prepared.audio.trim_front,
                trim_end=prepared.audio.trim_end,
                images=prepared.images,
                force_listen=unit.force_listen,
                sampling=unit.sampling,
                max_tokens=unit.max_tokens,
                deadline_s=running.deadline_s,
            )
            error: AntiphonError | None = None
        except AntiphonError as raised:
            error = raised
        except Exception as raised:  # noqa: BLE001 - the pool would swallow it, and the unit would never end
            error = EngineError(f"a unit could not be prepared: {raised!r}")
        with self._lock:
            flight.is_reading = False
            if self._flights.get(flight.plan.session_id) is not flight:
                return
            if error is None:
                self._send(flight, THINKER, command)
            else:
                self._fail_unit(flight, UnitFailed(unit.epoch, unit.number, error.code, str(error)))
            self._read_next(flight)

    def _send(self, flight: _Flight, stage: str, command: Command) -> None:
        try:
            self._ports[stage](command)
        except AntiphonError as error:
            self._end(flight, error, stage)

    def _events(self, flight: _Flight, message: SessionOutput) -> list[SessionEvent]:
        if isinstance(message, SessionOpened):
            return [Opened(message.num_tokens)]
        if isinstance(message, SessionCut):
            return [ContextCut(message.num_units, message.num_tokens, message.context_tokens)]
        key = message.epoch, message.number
        unit = flight.units.get(key)
        if unit is None:
            return []
        if isinstance(message, UnitRefused):
            self._fail_unit(flight, UnitFailed(*key, message.code, message.message))
            return []
        now_s = self._clock()
        if isinstance(message, UnitDecided):
            unit.decide(now_s)
            return [Decided(*key, message.speaks)]
        if isinstance(message, UnitWritten):
            text = "" if message.is_listen else self._tokenizer.decode(message.ids, skip_special=True)
            unit.write(message, text, now_s)
        elif isinstance(message, UnitDrawn):
            unit.draw(message)
        else:
            assert isinstance(message, UnitVoiced)
            unit.voice(message, now_s)
        events: list[SessionEvent] = []
        if unit.is_sayable:
            events.append(Spoken(*key, *unit.say()))
        if unit.is_complete:
            del flight.units[key]
            finished = unit.finish(now_s)
            self._load.note(finished.unit_s, num_sessions=len(self._flights), now_s=now_s)
            events.append(finished)
        return events

    def _fail_unit(self, flight: _Flight, failed: UnitFailed) -> None:
        """A unit that fails ends the model's turn: what comes next starts clean."""
        if flight.units.pop((failed.epoch, failed.number), None) is not None:
            flight.deliver(failed)
            self.end_turn(flight.plan.session_id)

    def _end(self, flight: _Flight, error: AntiphonError, stage: str | None) -> None:
        if self._flights.get(flight.plan.session_id) is flight:
            self._forget(flight.plan.session_id)
            flight.deliver(SessionFailed(error, stage))

    def _forget(self, session_id: str) -> None:
        flight = self._flights.pop(session_id, None)
        if flight is None:
            return
        flight.waiting.clear()
        for stage in dict.fromkeys(flight.stages):
            try:
                self._ports[stage](Abort(request_id=session_id, epoch=flight.epoch))
            except AntiphonError:
                continue  # its worker is gone, and what it held with it

    def _bury(self, message: WorkerDied) -> None:
        self._dead_stages.update(dict.fromkeys(message.stages, message.message))
        for flight in list(self._flights.values()):
            dead = [stage for stage in flight.stages if stage in message.stages]
            if dead:
                self._end(flight, EngineError(f"the {dead[0]} stage has died: {message.message}"), dead[0])

    def _require_open(self, plan: SessionPlan, stages: tuple[str, ...]) -> None:
        if self._is_closed:
            raise StateError("the engine is closed")
        dead = [stage for stage in stages if stage in self._dead_stages]
        if dead:
            raise EngineError(f"the {dead[0]} stage has died: {self._dead_stages[dead[0]]}")
        if plan.session_id in self._flights:
            raise StateError(f"session {plan.session_id} lives already; use another id")
        if len(self._flights) >= self.max_sessions:
            raise CapacityError(f"{len(self._flights)} sessions live, the limit; try again later")
