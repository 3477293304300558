"""One thread drives all stages of a device: it takes commands, collects what has finished and launches what can run.

It never waits for the device: while work is in flight it looks again after a short nap on a condition that every
command wakes; with nothing in flight it sleeps until a command comes.
"""

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from time import monotonic
from typing import Final, TypeVar

from antiphon.core.errors import AntiphonError, CapacityError, StateError
from antiphon.engine.counters import Counters
from antiphon.pipeline.hand_overs import note_local
from antiphon.pipeline.messages import (
    Abort,
    CodecChunk,
    Command,
    FrontMessage,
    RequestFailed,
    SessionCancel,
    SessionStart,
    SessionTalk,
    SessionUnit,
    SessionVoice,
    SpokenPiece,
    SpokenUnit,
    StageOutput,
    StagePiece,
    StageRequest,
    TalkerRequest,
    ThinkerRequest,
    UnitCodes,
    VoiceRequest,
    WorkerDied,
)
from antiphon.pipeline.stage import Report, Stage

THINKER, TALKER, CODE2WAV = "thinker", "talker", "code2wav"
POLL_S = 50e-6  # how long to nap while device work is in flight: a fifth of a codec step
MAX_COMMANDS = 4096
SNAPSHOT_TIMEOUT_S = 10.0

Outlet = Callable[[StagePiece], None]  # to a stage of another worker; must not block

_M = TypeVar("_M", bound=StageRequest | StagePiece)
_STAGE_OF: Final[dict[type, str]] = {
    ThinkerRequest: THINKER,
    TalkerRequest: TALKER,
    VoiceRequest: CODE2WAV,
    SessionStart: THINKER,
    SessionUnit: THINKER,
    SessionCancel: THINKER,
    SessionTalk: TALKER,
    SessionVoice: CODE2WAV,
    SpokenPiece: TALKER,
    CodecChunk: CODE2WAV,
    SpokenUnit: TALKER,
    UnitCodes: CODE2WAV,
}


class DeviceLoop:
    """Drives *stages* (in the order of the pipeline) and routes what they say to one another, outwards or to the front.

    `send` may be called from any thread; all else happens on the thread that calls `run`, or `step` in tests.

    Args:
        stages: those of this worker.
        emit: hands a message to the front; called on the loop's thread, must not block.
        outlets: for the stages of other workers.
        max_commands: requests and pieces that may wait to be taken; aborts always find room.
        counters: where hand-overs are noted.
        clock: seconds.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        emit: Callable[[FrontMessage], None],
        *,
        outlets: Mapping[str, Outlet] | None = None,
        max_commands: int = MAX_COMMANDS,
        counters: Counters | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._counters = Counters() if counters is None else counters
        self._clock = clock
        self._stages = {stage.name: stage for stage in stages}
        self._emit = emit
        self._outlets = dict(outlets or {})
        self._max_commands = max_commands
        self._commands: deque[Command | StagePiece | Callable[[], None]] = deque()
        self._wake = threading.Condition()
        self._is_stopping = False
        self._death: str | None = None
        self._thread: threading.Thread | None = None

    @property
    def stage_names(self) -> tuple[str, ...]:
        return tuple(self._stages)

    @property
    def death(self) -> str | None:
        """Why the loop has died; None while it has not."""
        return self._death

    def send(self, command: Command | StagePiece) -> None:
        """Queue a command, or a piece from another worker.

        Raises:
            CapacityError: the queue is full.
            StateError: the loop has ended.
        """
        with self._wake:
            self._require_alive()
            if len(self._commands) >= self._max_commands and not isinstance(command, Abort):
                raise CapacityError(f"device loop: {len(self._commands)} commands wait already; try again later")
            self._commands.append(command)
            self._wake.notify()

    def call(self, action: Callable[[], None]) -> None:
        """Run *action* on the loop's thread, between two steps. Raises as `send`."""
        with self._wake:
            self._require_alive()
            self._commands.append(action)
            self._wake.notify()

    def snapshot(self) -> dict[str, float]:
        """The gauges of all stages, as `stage.gauge`, taken between two steps.

        Raises:
            StateError: the loop has ended, or is stuck.
        """
        if self._thread is None or not self._thread.is_alive() or self._thread is threading.current_thread():
            return self._gauges()
        answer: Future[dict[str, float]] = Future()
        self.call(lambda: answer.set_result(self._gauges()))
        try:
            return answer.result(SNAPSHOT_TIMEOUT_S)
        except FutureTimeoutError:
            raise StateError(f"the device loop did not answer within {SNAPSHOT_TIMEOUT_S:g} s") from None

    def _gauges(self) -> dict[str, float]:
        gauges: dict[str, float] = {"commands": len(self._commands)}
        for name, stage in self._stages.items():
            gauges.update({f"{name}.{gauge}": value for gauge, value in stage.snapshot().items()})
        return gauges

    def warm_up(self, report: Report) -> None:
        """Make every stage ready; before `start`, or on the loop's thread."""
        for stage in self._stages.values():
            stage.warm_up(report)

    def start(self, name: str = "antiphon-device") -> None:
        """Run on a thread of its own."""
        self._thread = threading.Thread(target=self.run, name=name, daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float | None = None) -> None:
        """End the loop after its present step and wait for its thread."""
        with self._wake:
            self._is_stopping = True
            self._wake.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def run(self) -> None:
        """Step until stopped. An error outside a single request's work ends the loop and is told to the front."""
        try:
            while not self._is_stopping:
                if not self.step():
                    self._nap()
        except Exception as error:  # noqa: BLE001 - the stage loop: whatever it is, every request must hear of it
            self._die(f"{type(error).__name__}: {error}")

    def step(self) -> bool:
        """Take commands, collect, launch. Returns whether anything happened; if not, it is time for a nap."""
        commands = self._take_commands()
        for command in commands:
            self._take(command)
        has_moved = bool(commands)
        for stage in self._stages.values():
            for output in stage.collect():
                has_moved = True
                self._route(output)
        for stage in sorted(self._stages.values(), key=lambda stage: stage.urgency()):
            has_moved = stage.launch() or has_moved
        return has_moved

    def _take_commands(self) -> Sequence[Command | StagePiece | Callable[[], None]]:
        with self._wake:
            commands, self._commands = self._commands, deque()
        return commands

    def _nap(self) -> None:
        is_busy = any(stage.is_busy for stage in self._stages.values())
        with self._wake:
            if not self._commands and not self._is_stopping:
                self._wake.wait(POLL_S if is_busy else None)

    def _take(self, command: Command | StagePiece | Callable[[], None]) -> None:
        if isinstance(command, Abort):
            self._abort(command.request_id)
        elif isinstance(command, StagePiece):
            self._guard(command, self._extend)
        elif isinstance(command, StageRequest):
            self._guard(command, self._admit)
        else:
            command()

    def _route(self, output: StageOutput) -> None:
        if isinstance(output, StagePiece):
            self._guard(output, self._extend)
        else:
            if isinstance(output, RequestFailed):
                self._abort(output.request_id)
            self._emit(output)

    def _admit(self, request: StageRequest) -> None:
        self._stage_for(request).admit(request)

    def _extend(self, piece: StagePiece) -> None:
        name = _STAGE_OF[type(piece)]
        outlet = self._outlets.get(name)
        if outlet is not None:
            outlet(piece)
            return
        start_s = self._clock()
        self._stage_for(piece).extend(piece)
        if piece.way is None:  # else it came from another worker, and was noted when it did
            note_local(self._counters, piece, name, took_s=self._clock() - start_s)

    def _stage_for(self, message: StageRequest | StagePiece) -> Stage:
        name = _STAGE_OF[type(message)]
        stage = self._stages.get(name)
        if stage is None:
            raise StateError(f"request {message.request_id}: this worker has no {name} stage")
        return stage

    def _guard(self, message: _M, action: Callable[[_M], None]) -> None:
        """Do one request's work; whatever fails ends that request only."""
        try:
            action(message)
        except Exception as error:  # noqa: BLE001 - the stage loop: one request's failure must not reach its neighbours
            self._abort(message.request_id)
            code = error.code if isinstance(error, AntiphonError) else "internal"
            text = str(error) if isinstance(error, AntiphonError) else f"{type(error).__name__}: {error}"
            stage = _STAGE_OF[type(message)]
            self._emit(
                RequestFailed(request_id=message.request_id, epoch=message.epoch, stage=stage, code=code, message=text)
            )

    def _abort(self, request_id: str) -> None:
        for stage in self._stages.values():
            stage.abort(request_id)

    def _die(self, reason: str) -> None:
        with self._wake:
            self._death = reason
            self._commands.clear()
        self._emit(WorkerDied(stages=self.stage_names, message=reason))

    def _require_alive(self) -> None:
        if self._death is not None:
            raise StateError(f"the device loop has died: {self._death}")
        if self._is_stopping:
            raise StateError("the device loop is stopped")
