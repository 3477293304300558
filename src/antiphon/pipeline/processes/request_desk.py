"""Which worker hears what about which request: the supervisor's decisions, without processes, sockets or clock.

Invariant: a request is bound from its first command until all stages that were given work have said their last word, it
failed, it was aborted, a worker it uses died, or nothing was heard of it for too long. Then every worker it used is
told. A session is a request that ends in one of the last four ways only; it is expected to say something from a unit
that was sent until what came of it.
"""

from collections.abc import Collection
from dataclasses import dataclass

from antiphon.pipeline.device_loop import CODE2WAV, TALKER, THINKER
from antiphon.pipeline.messages import (
    Abort,
    Command,
    RequestFailed,
    RequestOutput,
    SessionCancel,
    SessionCommand,
    SessionOpened,
    SessionOutput,
    SessionStart,
    SessionTalk,
    SpeechEnd,
    SpeechSamples,
    StageRequest,
    TalkerRequest,
    TextEnd,
    ThinkerRequest,
    UnitRefused,
    UnitVoiced,
    UnitWritten,
    VoiceRequest,
)
from antiphon.pipeline.processes.control import Release, Route
from antiphon.pipeline.processes.layout import EdgePlan, Layout
from antiphon.pipeline.processes.routing import Binding, NoReplicaError, Router

Letter = tuple[str, Command | Route | Release]  # worker, what it is told


@dataclass(frozen=True)
class Endings:
    """Requests that are over, and what the workers they used are told."""

    failures: tuple[RequestFailed, ...]
    letters: tuple[Letter, ...]


class RequestDesk:
    """Every request under way and its workers.

    Args:
        layout: of the workers.
        silence_s: a request of which no stage says anything for so long ends; 0 waits for ever.
    """

    def __init__(self, layout: Layout, *, silence_s: float) -> None:
        self._layout = layout
        self._silence_s = silence_s
        self._router = Router(layout)
        self._heard_at_s: dict[str, float] = {}

    @property
    def num_requests(self) -> int:
        return len(self._router)

    def knows(self, request_id: str) -> bool:
        return self._router.binding(request_id) is not None

    def worker_of(self, request_id: str, stage: str) -> str | None:
        """The worker whose *stage* has this request; None once it is over."""
        binding = self._router.binding(request_id)
        return None if binding is None else binding.workers.get(stage)

    def expects(self, message: RequestOutput) -> bool:
        """Whether *message* is about a request under way, in its present epoch; of a session's the front knows."""
        binding = self._router.binding(message.request_id)
        if binding is None:
            return False
        return binding.is_session or binding.epoch == message.epoch

    def is_busy(self, worker: str) -> bool:
        """Whether a request that is under way uses *worker*."""
        return bool(self._router.requests_on(worker))

    def command(self, command: Command, live: Collection[str], now_s: float) -> list[Letter]:
        """Route a command to its worker, over the workers *live* if the request is new.

        Raises:
            NoReplicaError: the stage has no live worker.
        """
        request_id = command.request_id
        if isinstance(command, Abort):
            return self._end(request_id)
        stage = _stage_of(command)
        binding = self._router.bind(request_id, command.epoch, live)
        binding.is_session = isinstance(command, SessionCommand)
        try:
            worker = self._router.use(request_id, stage, live)
        except NoReplicaError:
            if not binding.used:
                self._forget(request_id)
            raise
        self._heard_at_s[request_id] = now_s
        if isinstance(command, SessionCancel):
            del self._heard_at_s[request_id]  # what was asked for is not wanted any more
        route = self._route(command, stage, worker, binding)
        return [(worker, command)] if route is None else [(worker, route), (worker, command)]

    def hear(self, message: RequestOutput, now_s: float) -> list[Letter]:
        """A stage has said something about an expected request; returns what follows for the workers."""
        request_id = message.request_id
        binding = self._router.binding(request_id)
        assert binding is not None
        if isinstance(message, RequestFailed):
            return self._end(request_id)
        if isinstance(message, SessionOutput):
            if _is_settled(message, binding):
                self._heard_at_s.pop(request_id, None)
            elif request_id in self._heard_at_s:
                self._heard_at_s[request_id] = now_s
            return []
        self._heard_at_s[request_id] = now_s
        ended = _ended_stage(message)
        if ended is None or not self._router.end_stage(request_id, ended):
            return []
        self._forget(request_id)
        return [(worker, Release(request_id=request_id)) for worker in sorted(binding.used_workers())]

    def bury(self, worker: str, reason: str) -> Endings:
        """*worker* is gone: the requests that were given work there are over."""
        plan = self._layout.worker(worker)
        text = f"worker {worker} ({', '.join(plan.stages)}) {reason}; the request was on it and has ended"
        failures, letters = [], []
        for request_id in self._router.requests_on(worker):
            binding = self._router.binding(request_id)
            assert binding is not None
            stage = next(name for name in plan.stages if binding.workers.get(name) == worker and name in binding.used)
            failures.append(_failure(request_id, binding, stage, "worker_died", text))
            letters += [letter for letter in self._end(request_id) if letter[0] != worker]
        return Endings(tuple(failures), tuple(letters))

    def expire(self, now_s: float) -> Endings:
        """End the requests that have been silent for too long."""
        failures, letters = [], []
        if self._silence_s > 0:
            for request_id, heard_at_s in list(self._heard_at_s.items()):
                binding = self._router.binding(request_id)
                if binding is not None and now_s - heard_at_s > self._silence_s:
                    stage = next(name for name in self._layout.stages if name in binding.used - binding.ended)
                    text = f"Timed out waiting for connector input after {self._silence_s:g} s"
                    failures.append(_failure(request_id, binding, stage, "input_timeout", text))
                    letters += self._end(request_id)
        return Endings(tuple(failures), tuple(letters))

    def end_all(self, reason: str) -> list[RequestFailed]:
        """The workers are gone, all of them."""
        failures = []
        for request_id in self._router.request_ids():
            binding = self._forget(request_id)
            if binding is not None and binding.used:
                stage = next(name for name in self._layout.stages if name in binding.used)
                failures.append(_failure(request_id, binding, stage, "worker_died", reason))
        return failures

    def _route(self, command: Command, stage: str, worker: str, binding: Binding) -> Route | None:
        """How the stage's pieces get to the next one, if that is in another worker."""
        following = self._layout.next_stage(stage)
        # The ways of a session are told once, by the commands that begin it.
        is_silent = (isinstance(command, ThinkerRequest) and command.handoff is None) or (
            isinstance(command, SessionCommand)
            and not isinstance(command, SessionTalk)
            and not (isinstance(command, SessionStart) and command.speaks)
        )
        if following is None or is_silent or following not in binding.workers:
            return None
        consumer = binding.workers[following]
        if consumer == worker:
            return None
        edge = EdgePlan(producer=worker, consumer=consumer, stage=following).name
        return Route(request_id=command.request_id, stage=following, edge=edge)

    def _end(self, request_id: str) -> list[Letter]:
        binding = self._forget(request_id)
        if binding is None:
            return []
        abort = Abort(request_id=request_id, epoch=binding.epoch)
        return [(worker, abort) for worker in sorted(binding.used_workers())]

    def _forget(self, request_id: str) -> Binding | None:
        self._heard_at_s.pop(request_id, None)
        return self._router.release(request_id)


def _stage_of(command: StageRequest) -> str:
    if isinstance(command, (TalkerRequest, SessionTalk)):
        return TALKER
    return CODE2WAV if isinstance(command, VoiceRequest) else THINKER


def _ended_stage(message: RequestOutput) -> str | None:
    """The stage that *message* is the last word of."""
    if isinstance(message, TextEnd):
        return THINKER
    if isinstance(message, SpeechEnd):
        return TALKER
    return CODE2WAV if isinstance(message, SpeechSamples) and message.is_last else None


def _is_settled(message: SessionOutput, binding: Binding) -> bool:
    """Whether nothing more is expected of the session until its next unit."""
    if isinstance(message, UnitWritten):
        return message.is_listen or TALKER not in binding.used
    return isinstance(message, (SessionOpened, UnitVoiced, UnitRefused))


def _failure(request_id: str, binding: Binding, stage: str, code: str, text: str) -> RequestFailed:
    return RequestFailed(request_id=request_id, epoch=binding.epoch, stage=stage, code=code, message=text)
