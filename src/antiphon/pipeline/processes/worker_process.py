"""A worker process: the stages of one device on a device loop, joined to the front and to other workers.

Two threads matter: the device loop's, and this one, which moves messages and never computes. Each outgoing edge has one
more, which may wait for room. Started by the supervisor only, which writes three lines to standard input: endpoint of
the front, identity of this worker, process id of the supervisor.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import NoReturn

import torch
import zmq

from antiphon.core.errors import AntiphonError, StateError
from antiphon.engine.counters import Counters
from antiphon.pipeline.connectors.zeromq import message_from, message_parts
from antiphon.pipeline.device_loop import CODE2WAV, TALKER, THINKER, DeviceLoop
from antiphon.pipeline.messages import (
    Abort,
    CodecChunk,
    RequestFailed,
    SessionCancel,
    SessionStart,
    SessionTalk,
    SessionUnit,
    SessionVoice,
    SpokenPiece,
    SpokenUnit,
    StagePiece,
    StageRequest,
    TalkerRequest,
    ThinkerRequest,
    UnitCodes,
    VoiceRequest,
    WorkerDied,
)
from antiphon.pipeline.processes.control import (
    AskStatus,
    BuildStages,
    CloseEdge,
    Hello,
    OpenInlet,
    OpenOutlet,
    Progress,
    Release,
    Route,
    StagesReady,
    StartFailed,
    Status,
    Stop,
    Terminated,
    front_encoding,
)
from antiphon.pipeline.processes.parent_watch import die_with_parent, is_orphan
from antiphon.pipeline.processes.piece_gate import PieceGate
from antiphon.pipeline.processes.ranks import Ranks
from antiphon.pipeline.processes.waker import Waker
from antiphon.pipeline.processes.worker_edges import WorkerEdges
from antiphon.pipeline.stage import Report, Stage

_LOOK_AROUND_MS = 1000  # how often an idle worker asks whether its parent still lives
_LAST_WORDS_MS = 1000  # how long the end of the process waits for the front to have heard them
_STAGE_OF: dict[type, str] = {
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


@dataclass(frozen=True)
class BuiltStages:
    """What a worker drives, loaded but not warmed up."""

    stages: Sequence[Stage]
    counters: Counters
    positions: dict[str, int] = field(default_factory=dict)  # see StagesReady
    ranks: Ranks | None = None  # of a tensor-parallel Thinker


StageBuilder = Callable[[BuildStages, Report], BuiltStages]


class Worker:
    """The process around one device loop.

    Args:
        endpoint: of the front.
        identity: what the front knows this worker by.
        parent_pid: of the supervisor.
        build: makes the stages when the front has said which.
    """

    def __init__(self, endpoint: str, identity: bytes, parent_pid: int, build: StageBuilder) -> None:
        self._parent_pid = parent_pid
        self._build = build
        self._encoding = front_encoding()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.IDENTITY, identity)
        self._socket.setsockopt(zmq.LINGER, _LAST_WORDS_MS)
        self._socket.setsockopt(zmq.SNDHWM, 0)  # what may wait is bounded by the requests in flight
        self._socket.connect(endpoint)
        self._waker = Waker()
        self._outbox: SimpleQueue[object] = SimpleQueue()
        self._is_terminated = self._is_stopping = False
        self._status = 0  # of the process
        self._loop: DeviceLoop | None = None
        self._edges: WorkerEdges | None = None
        self._gate: PieceGate | None = None
        self._ranks: Ranks | None = None
        self._counters = Counters()
        self._device = torch.device("cpu")

    def run(self) -> int:
        """Serve until told to stop; returns the exit status."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the supervisor decides
        signal.signal(signal.SIGTERM, self._terminate)
        self._send(Hello(pid=os.getpid()))
        try:
            while not self._is_stopping:
                self._turn()
        finally:
            if self._loop is not None:
                self._loop.stop(timeout_s=_LAST_WORDS_MS / 1000)
            if self._ranks is not None:
                self._ranks.close()
            self._flush()
            if self._edges is not None:
                self._edges.close()
            self._socket.close()
            self._context.term()  # returns when the front has the last words, or has had time enough
        return self._status

    def _terminate(self, *_: object) -> None:
        if not self._is_terminated:
            self._is_terminated = True
            self._emit(Terminated())

    def _emit(self, message: object) -> None:
        """Queue a message to the front; from any thread, never blocks."""
        self._outbox.put(message)
        self._waker.wake()

    def _turn(self) -> None:
        poller = zmq.Poller()
        for end in (self._socket, self._waker.fileno(), *(self._edges.descriptors() if self._edges else ())):
            poller.register(end, zmq.POLLIN)
        if not poller.poll(_LOOK_AROUND_MS) and is_orphan(self._parent_pid):
            self._is_stopping, self._status = True, 1
        self._waker.rest()
        self._flush()
        if self._edges is not None:
            for broken in self._edges.receive(self._take_piece):
                self._send(broken)
        while not self._is_stopping:
            try:
                parts = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            self._handle(message_from(parts, self._encoding))

    def _flush(self) -> None:
        with suppress(Empty):
            while True:
                message = self._outbox.get_nowait()
                if isinstance(message, WorkerDied):
                    self._is_stopping, self._status = True, 1
                    # A sum without one of its ranks fails in words of its own, and often before the watch has seen it.
                    lost = None if self._ranks is None else self._ranks.lost()
                    message = message if lost is None else replace(message, message=lost)
                self._send(message)

    def _send(self, message: object) -> None:
        self._socket.send_multipart(message_parts(message, self._encoding), copy=False)

    def _handle(self, message: object) -> None:
        if isinstance(message, StageRequest):
            self._admit(message)
        elif isinstance(message, Abort):
            self._abort(message)
        elif isinstance(message, Stop):
            self._is_stopping = True
        elif isinstance(message, BuildStages):
            self._start(message)
        elif isinstance(message, AskStatus):
            gauges = self._loop.snapshot() if self._loop is not None else {}
            counters = self._counters
            self._send(Status(gauges=gauges, counters=counters.snapshot(), observations=counters.take_observations()))
        else:
            self._handle_wiring(message)

    def _handle_wiring(self, message: object) -> None:
        assert self._edges is not None
        if isinstance(message, Route):
            self._edges.route(message.request_id, message.stage, message.edge)
        elif isinstance(message, Release):
            self._release(message.request_id)
        elif isinstance(message, OpenInlet):
            self._send(self._edges.open_inlet(message))
        elif isinstance(message, OpenOutlet):
            self._send(self._edges.open_outlet(message))
        elif isinstance(message, CloseEdge):
            self._edges.close_edge(message.edge)
        else:
            raise StateError(f"a worker cannot be told {type(message).__name__}")

    def _start(self, order: BuildStages) -> None:
        try:
            built = self._build(order, self._report)
            if built.ranks is not None:
                self._ranks = built.ranks
                built.ranks.watch(partial(self._lose_rank, order.stages))
            edges = WorkerEdges(put_timeout_s=order.put_timeout_s, fail=self._fail, counters=built.counters)
            others = [stage for stage in (TALKER, CODE2WAV) if stage not in order.stages]
            loop = DeviceLoop(
                built.stages,
                self._emit,
                outlets={stage: partial(edges.send, stage) for stage in others},
                counters=built.counters,
            )
            loop.warm_up(self._report)
        except AntiphonError as error:
            self._send(StartFailed(code=error.code, message=str(error)))
            self._is_stopping, self._status = True, 1
            return
        loop.start()
        self._device = torch.device(order.device)
        self._loop, self._edges, self._gate, self._counters = loop, edges, PieceGate(loop.send), built.counters
        self._send(StagesReady(positions=built.positions))

    def _lose_rank(self, stages: tuple[str, ...], reason: str) -> None:
        """A rank has ended: nothing can be computed any more. On a thread of its own."""
        self._emit(WorkerDied(stages=stages, message=reason))
        # The threads that should end this process may wait in a sum that will never come.
        time.sleep(2 * _LAST_WORDS_MS / 1000)
        os._exit(1)

    def _report(self, text: str) -> None:
        self._send(Progress(text=text))

    def _admit(self, request: StageRequest) -> None:
        assert self._gate is not None
        try:
            self._gate.admit(request)
        except AntiphonError as error:
            self._fail(request, error)

    def _take_piece(self, piece: StagePiece) -> None:
        assert self._gate is not None
        if isinstance(piece, (SpokenPiece, SpokenUnit)):
            # From pageable memory this returns when the copy is done, so any stream of the device may read it.
            piece = replace(piece, rows=piece.rows.to(self._device))
        try:
            self._gate.extend(piece)
        except AntiphonError as error:
            self._fail(piece, error)

    def _fail(self, message: StageRequest | StagePiece, error: AntiphonError) -> None:
        """One request cannot go on; its neighbours can. From any thread."""
        self._emit(
            RequestFailed(
                request_id=message.request_id,
                epoch=message.epoch,
                stage=_STAGE_OF[type(message)],
                code=error.code,
                message=str(error),
            )
        )

    def _abort(self, abort: Abort) -> None:
        assert self._gate is not None
        with suppress(StateError):  # the loop has ended, and with it what the request held
            self._gate.abort(abort)
        self._release(abort.request_id)

    def _release(self, request_id: str) -> None:
        assert self._gate is not None
        assert self._edges is not None
        self._gate.release(request_id)
        self._edges.release(request_id, (TALKER, CODE2WAV))


def run_worker(build: StageBuilder) -> NoReturn:
    """Read who started this process, serve, and end it. For `__main__` and for tests with stages of their own."""
    endpoint, identity, parent = (sys.stdin.readline().strip() for _ in range(3))
    die_with_parent(int(parent))
    status = Worker(endpoint, identity.encode(), int(parent), build).run()
    sys.stdout.flush()
    sys.stderr.flush()
    # Everything of ours is closed. Unloading torch and CUDA beside threads that still wait in them may hang or abort.
    os._exit(status)
