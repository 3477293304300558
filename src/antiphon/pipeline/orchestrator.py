"""Takes requests in, sends them to the stages, and gives each its events and exactly one end."""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field

from antiphon.core.errors import AntiphonError, CapacityError, EngineError, StateError, error_class
from antiphon.pipeline.answer import Answer
from antiphon.pipeline.device_loop import CODE2WAV, TALKER, THINKER
from antiphon.pipeline.dispatch import commands_for
from antiphon.pipeline.events import Aborted, End, Failed, Finished, RequestEvent
from antiphon.pipeline.intake import PromptInputs, prepare_inputs
from antiphon.pipeline.messages import (
    Abort,
    Command,
    FrontMessage,
    RequestFailed,
    RequestOutput,
    WorkerDied,
)
from antiphon.pipeline.output_queue import OutputQueue
from antiphon.pipeline.request import GenerationRequest
from antiphon.pipeline.request_checks import RequestLimits, check_request
from antiphon.prompt.tokenizer import Tokenizer

MAX_REQUESTS = 256
INTAKE_THREADS = 2

Port = Callable[[Command], None]  # sends to the worker of a stage; raises CapacityError or StateError
ReplicaOf = Callable[[str, str], int]  # the replica of a stage that a request was given to


@dataclass(eq=False)
class _Flight:
    """A request on its way. Changed under the orchestrator's lock only."""

    request: GenerationRequest
    answer: Answer
    output: OutputQueue
    start_s: float
    epoch: int = 0
    sent_to: list[str] = field(default_factory=list)  # stages that know of it


class RequestHandle:
    """One request as its owner sees it: iterate for its events, the last of which is its end."""

    def __init__(self, request_id: str, output: OutputQueue, abort: Callable[[str], None]) -> None:
        self.request_id = request_id
        self._output = output
        self._abort = abort

    def __iter__(self) -> Iterator[RequestEvent]:
        while True:
            event = self._output.take()
            assert event is not None
            yield event
            if isinstance(event, (Finished, Failed, Aborted)):
                return

    def take(self, timeout_s: float | None = None) -> RequestEvent | None:
        """The next event, waited for; None if none came in time."""
        return self._output.take(timeout_s)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call *listener* on a thread of the pipeline whenever something can be taken."""
        self._output.listen(listener)

    def abort(self) -> None:
        """End the request now. Harmless if it has ended."""
        self._abort(self.request_id)


class Orchestrator:
    """The front of the pipeline.

    `submit` and `abort` may be called from any thread; `receive` by whoever brings the stages' messages. Features are
    computed on a small pool; how many requests wait for it is bounded by *max_requests*.

    Args:
        ports: to the worker of each stage.
        tokenizer: the model's.
        limits: what the stages hold.
        num_mel_bins: of the audio encoder.
        clock: gives seconds; deadlines are on it, so it must be the workers' clock.
        max_requests: requests in flight.
        executor: where features are computed; None: two threads of our own.
        replica_of: asked once a request has been sent; None: every stage has one replica.
    """

    def __init__(
        self,
        ports: Mapping[str, Port],
        tokenizer: Tokenizer,
        *,
        limits: RequestLimits,
        num_mel_bins: int,
        clock: Callable[[], float],
        max_requests: int = MAX_REQUESTS,
        executor: Executor | None = None,
        replica_of: ReplicaOf | None = None,
    ) -> None:
        self._replica_of: ReplicaOf = replica_of or (lambda _request_id, _stage: 0)
        self._ports = dict(ports)
        self._tokenizer = tokenizer
        self._limits = limits
        self._num_mel_bins = num_mel_bins
        self._clock = clock
        self._max_requests = max_requests
        self._executor = executor or ThreadPoolExecutor(INTAKE_THREADS, thread_name_prefix="antiphon-intake")
        self._lock = threading.RLock()
        self._flights: dict[str, _Flight] = {}
        self._dead_stages: dict[str, str] = {}
        self._is_closed = False

    @property
    def num_requests(self) -> int:
        return len(self._flights)

    @property
    def num_waiting(self) -> int:
        """Requests whose features are still computed: no stage has them yet."""
        with self._lock:
            return sum(not flight.sent_to for flight in self._flights.values())

    def check(self, request: GenerationRequest) -> None:
        """Refuse what could only fail later. Raises as `check_request`."""
        check_request(
            self._limits,
            num_prompt=len(request.prompt.ids),
            sampling=request.sampling,
            handoff=request.spoken_by,
        )

    def submit(self, request: GenerationRequest) -> RequestHandle:
        """Start a request.

        Raises:
            SamplingError, ContextLengthError: as `check`.
            CapacityError: too many are in flight.
            EngineError: a stage it needs is dead.
            StateError: its id is in use, or the orchestrator is closed.
        """
        self.check(request)
        start_s = self._clock()
        flight = _Flight(
            request=request,
            answer=Answer(
                self._tokenizer,
                stop=request.sampling[0].stop,
                speaks=request.voice is not None,
                num_prompt_tokens=len(request.prompt.ids),
                start_s=start_s,
            ),
            output=OutputQueue(),
            start_s=start_s,
        )
        with self._lock:
            self._require_open(request)
            self._flights[request.request_id] = flight
            self._executor.submit(self._prepare, flight)
        return RequestHandle(request.request_id, flight.output, self.abort)

    def abort(self, request_id: str) -> None:
        """End a request; ignored if it has ended."""
        with self._lock:
            flight = self._flights.get(request_id)
            if flight is not None:
                self._end(flight, Aborted())

    def receive(self, message: FrontMessage) -> None:
        """Take a message of a stage. What is stale, or for nobody, is dropped."""
        with self._lock:
            if isinstance(message, WorkerDied):
                self._bury(message)
                return
            flight = self._flights.get(message.request_id)
            if flight is not None and flight.epoch == message.epoch:
                self._receive(flight, message)

    def revive(self, stages: tuple[str, ...]) -> None:
        """Workers of *stages* run again."""
        with self._lock:
            for stage in stages:
                self._dead_stages.pop(stage, None)

    def close(self) -> None:
        """Abort everything and take nothing more."""
        with self._lock:
            self._is_closed = True
            for flight in list(self._flights.values()):
                self._end(flight, Aborted())
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _prepare(self, flight: _Flight) -> None:
        """On the pool: compute features, then send."""
        with self._lock:
            if flight.request.request_id not in self._flights:
                return
        try:
            inputs = prepare_inputs(flight.request.prompt, num_mel_bins=self._num_mel_bins)
            with self._lock:
                if self._flights.get(flight.request.request_id) is flight:
                    self._send(flight, inputs)
        except AntiphonError as error:
            with self._lock:
                self._end(flight, Failed(error))
        except Exception as error:  # noqa: BLE001 - the pool would swallow it, and the request would never end
            with self._lock:
                self._end(flight, Failed(EngineError(f"the prompt could not be prepared: {error!r}")))

    def _send(self, flight: _Flight, inputs: PromptInputs) -> None:
        commands = commands_for(flight.request, inputs, epoch=flight.epoch, deadline_s=flight.start_s)
        for stage, command in commands:
            self._ports[stage](command)
            flight.sent_to.append(stage)
        replicas = {stage: self._replica_of(flight.request.request_id, stage) for stage in flight.sent_to}
        thinker, talker, code2wav = (replicas.get(stage, 0) for stage in (THINKER, TALKER, CODE2WAV))
        flight.answer.sent(self._clock(), (thinker, talker, code2wav))

    def _receive(self, flight: _Flight, message: RequestOutput) -> None:
        if isinstance(message, RequestFailed):
            self._end(flight, Failed(error_class(message.code)(message.message), message.stage))
            return
        now_s = self._clock()
        event = flight.answer.receive(message, now_s)
        if event is not None and not flight.output.push(event):
            self._end(flight, Failed(CapacityError("the answer is read too slowly: its buffer is full")))
        elif flight.answer.is_complete:
            self._end(flight, flight.answer.finish(now_s))

    def _end(self, flight: _Flight, end: End) -> None:
        if self._flights.get(flight.request.request_id) is not flight:
            return
        del self._flights[flight.request.request_id]
        if not isinstance(end, Finished):
            for stage in flight.sent_to:
                self._abort_stage(stage, flight)
        flight.output.end(end)

    def _abort_stage(self, stage: str, flight: _Flight) -> None:
        try:
            self._ports[stage](Abort(request_id=flight.request.request_id, epoch=flight.epoch))
        except AntiphonError:
            return  # its worker is gone, and what it held with it

    def _bury(self, message: WorkerDied) -> None:
        self._dead_stages.update(dict.fromkeys(message.stages, message.message))
        for flight in list(self._flights.values()):
            dead = [stage for stage in _stages_of(flight.request) if stage in message.stages]
            if dead:
                self._end(flight, Failed(EngineError(f"the {dead[0]} stage has died: {message.message}"), dead[0]))

    def _require_open(self, request: GenerationRequest) -> None:
        if self._is_closed:
            raise StateError("the engine is closed")
        dead = [stage for stage in _stages_of(request) if stage in self._dead_stages]
        if dead:
            raise EngineError(f"the {dead[0]} stage has died: {self._dead_stages[dead[0]]}")
        if request.request_id in self._flights:
            raise StateError(f"request {request.request_id} is in flight already; use another id")
        if len(self._flights) >= self._max_requests:
            raise CapacityError(f"{len(self._flights)} requests are in flight, the limit; try again later")


def _stages_of(request: GenerationRequest) -> tuple[str, ...]:
    return (THINKER,) if request.voice is None else (THINKER, TALKER, CODE2WAV)
