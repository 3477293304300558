"""The whole engine in worker processes: this process holds the front only, no weights. The twin of `LocalEngine`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import monotonic, sleep

import torch

from antiphon.config.deploy import DeployConfig
from antiphon.config.env import read_environment
from antiphon.core.errors import EngineError, StateError
from antiphon.pipeline.device_loop import TALKER, THINKER
from antiphon.pipeline.duplex.front import DuplexFront
from antiphon.pipeline.engine_settings import speech_extra
from antiphon.pipeline.health import Health
from antiphon.pipeline.messages import FrontMessage
from antiphon.pipeline.omni_model import OmniModel
from antiphon.pipeline.orchestrator import MAX_REQUESTS, Orchestrator, RequestHandle
from antiphon.pipeline.processes.child import WORKER_COMMAND
from antiphon.pipeline.processes.control import SESSION, ModelSpec
from antiphon.pipeline.processes.fleet import SupervisorSettings
from antiphon.pipeline.processes.layout import Layout, only_stages, plan_layout
from antiphon.pipeline.pump import MessagePump
from antiphon.pipeline.request import GenerationRequest
from antiphon.pipeline.request_checks import RequestLimits
from antiphon.pipeline.stage import Report
from antiphon.pipeline.supervisor import Supervisor
from antiphon.pipeline.voice_book import VoiceBook

_DRAIN_POLL_S = 0.01
START_TIMEOUT_S = 600.0  # as the reference's init-timeout


class ProcessEngine:
    """Answers many requests at once. `start` before the first, `close` after the last.

    Args:
        model: of the front: loaded with `only=()`, it has sizes, tokenizer and folder, but no weights.
        source: what the workers load; the same.
        config: the deploy configuration in force.
        dtype, load_format: as `ModelSpec`.
        layout: None: what *config* says.
        settings: of the supervisor; None: the defaults, with what the environment says.
        max_requests: requests in flight; more are refused.
        command: runs a worker.
    """

    def __init__(
        self,
        model: OmniModel,
        config: DeployConfig,
        *,
        source: str,
        dtype: torch.dtype | None = None,
        load_format: str = "auto",
        layout: Layout | None = None,
        settings: SupervisorSettings | None = None,
        max_requests: int = MAX_REQUESTS,
        command: Sequence[str] = WORKER_COMMAND,
    ) -> None:
        self.model = model
        self.config = config
        speaks = model.talker is not None
        chosen = layout or plan_layout(config)
        if not speaks:
            chosen = only_stages(chosen, (THINKER,))
        extra = speech_extra(config)
        self.voices = VoiceBook(model, default=extra.prompt_wav, max_seconds=extra.ref_audio_max_seconds)
        spec = ModelSpec(
            source=source,
            deploy=replace(config, origins={}),
            dtype=None if dtype is None else str(dtype).removeprefix("torch."),
            load_format=load_format,
            with_speech=speaks,
            default_voice=self.voices.prepare(None) if speaks else None,
        )
        self._max_requests = max_requests
        self.layout = chosen
        self._report: Report = _say_nothing
        self._orchestrator: Orchestrator | None = None
        self._is_draining = False
        self.duplex = DuplexFront(
            {},
            model.tokenizer,
            image_config=model.image_config,
            num_mel_bins=model.config.audio.num_mel_bins,
            clock=monotonic,
            max_sessions=config.duplex_session.max_sessions if config.session_mode == "duplex" else 0,
        )
        self._pump = MessagePump(self._receive)
        self.supervisor = Supervisor(
            chosen,
            spec,
            self._pump.put,
            settings=settings or SupervisorSettings(input_wait_timeout_s=read_environment().input_wait_timeout_s),
            report=lambda line: self._report(line),
            command=command,
        )

    def start(self, report: Report | None = None, *, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start the workers, telling *report*, and begin to answer. Raises as `Supervisor.start`."""
        self._report = report or _say_nothing
        self.supervisor.start(timeout_s)
        positions = self.supervisor.positions()
        self._orchestrator = Orchestrator(
            self.supervisor.ports(),
            self.model.tokenizer,
            limits=RequestLimits(
                vocab_size=self.model.config.vocab_size,
                thinker_positions=positions[THINKER],
                talker_positions=positions.get(TALKER, self.model.config.talker.decoder.max_positions),
            ),
            num_mel_bins=self.model.config.audio.num_mel_bins,
            clock=monotonic,  # one clock for all processes of a host
            max_requests=self._max_requests,
            replica_of=self.supervisor.replica_of,
        )
        self.duplex.connect(self.supervisor.ports())
        self._pump.start()

    @property
    def session_positions(self) -> int:
        """Context that each live session can have when all of them are there; known once the workers are ready."""
        return self.supervisor.positions()[SESSION]

    @property
    def orchestrator(self) -> Orchestrator:
        if self._orchestrator is None:
            raise StateError("the engine has not been started")
        return self._orchestrator

    def submit(self, request: GenerationRequest) -> RequestHandle:
        """Start a request. Raises as `Orchestrator.submit`, and EngineError while draining."""
        if self._is_draining:
            raise EngineError("the engine is shutting down; nothing new is taken")
        return self.orchestrator.submit(request)

    def health(self) -> Health:
        return self.supervisor.health()

    def snapshot(self) -> Mapping[str, float]:
        """Gauges and counters of all workers, as `worker.gauge`, at most two seconds old."""
        return {
            f"{worker}.{name}": value
            for worker, status in self.supervisor.status().items()
            for name, value in (*status.gauges.items(), *status.counters.items())
        }

    def drain(self, timeout_s: float) -> bool:
        """Take nothing new and wait for what runs; returns whether all of it ended in time."""
        self._is_draining = True
        self.supervisor.announce_drain()
        deadline_s = monotonic() + timeout_s
        # Requests whose features are still computed have not reached the workers, but they were accepted.
        while self.orchestrator.num_requests and monotonic() < deadline_s:
            sleep(_DRAIN_POLL_S)
        return self.supervisor.drain(max(0.0, deadline_s - monotonic()))

    def close(self) -> None:
        """Abort what runs, end all workers and threads."""
        if self._orchestrator is not None:
            self._orchestrator.close()
        self.duplex.close()
        self.supervisor.stop()
        if self._orchestrator is not None:
            self._pump.stop()

    def __enter__(self) -> "ProcessEngine":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _receive(self, message: FrontMessage) -> None:
        self.orchestrator.receive(message)
        self.duplex.receive(message)


def _say_nothing(line: str) -> None:
    """Report to nobody."""
