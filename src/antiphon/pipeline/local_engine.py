"""The whole engine in this process: stages on a device-loop thread, a front thread, and the orchestrator."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from time import monotonic

from antiphon.config.deploy import DeployConfig
from antiphon.config.problems import DeployError
from antiphon.engine.counters import Counters
from antiphon.pipeline.device_loop import CODE2WAV, TALKER, THINKER, DeviceLoop
from antiphon.pipeline.duplex.front import DuplexFront
from antiphon.pipeline.engine_build import build_stages, memory_facts
from antiphon.pipeline.engine_settings import EngineSettings, engine_settings, speech_extra, thread_problems
from antiphon.pipeline.messages import FrontMessage
from antiphon.pipeline.omni_model import OmniModel
from antiphon.pipeline.orchestrator import MAX_REQUESTS, Orchestrator, RequestHandle
from antiphon.pipeline.pump import MessagePump
from antiphon.pipeline.request import GenerationRequest
from antiphon.pipeline.request_checks import RequestLimits
from antiphon.pipeline.stage import Report
from antiphon.pipeline.voice_book import VoiceBook


def _say_nothing(line: str) -> None:
    """Report to nobody."""


class LocalEngine:
    """Answers many requests at once. `start` before the first, `close` after the last.

    Args:
        model: loaded on the device that the configuration names.
        config: the deploy configuration in force.
        clock: seconds.
        max_requests: requests in flight; more are refused.
        executor: where features are computed; None: threads of the orchestrator's own.
    """

    def __init__(
        self,
        model: OmniModel,
        config: DeployConfig,
        *,
        clock: Callable[[], float] = monotonic,
        max_requests: int = MAX_REQUESTS,
        executor: Executor | None = None,
    ) -> None:
        problems = thread_problems(config)
        if problems:
            raise DeployError(problems)
        self.model = model
        self.config = config
        self.settings: EngineSettings = engine_settings(config, model.config, memory_facts(model))
        extra = speech_extra(config)
        self.voices = VoiceBook(model, default=extra.prompt_wav, max_seconds=extra.ref_audio_max_seconds)
        self.counters = Counters()
        speaks = model.talker is not None
        self.loop = DeviceLoop(
            build_stages(
                (THINKER, TALKER, CODE2WAV) if speaks else (THINKER,),
                model,
                self.settings,
                counters=self.counters,
                clock=clock,
                default_voice=self.voices.prepare(None) if speaks else None,
                is_chunked=config.stages[1].async_chunk,
            ),
            lambda message: self._deliver(message),
            counters=self.counters,
            clock=clock,
        )
        self.orchestrator = Orchestrator(
            dict.fromkeys(self.loop.stage_names, self.loop.send),
            model.tokenizer,
            limits=RequestLimits(
                vocab_size=model.config.vocab_size,
                thinker_positions=self.settings.thinker.max_model_len,
                talker_positions=self.settings.talker.max_positions,
            ),
            num_mel_bins=model.config.audio.num_mel_bins,
            clock=clock,
            max_requests=max_requests,
            executor=executor,
        )
        self.duplex = DuplexFront(
            dict.fromkeys(self.loop.stage_names, self.loop.send),
            model.tokenizer,
            image_config=model.image_config,
            num_mel_bins=model.config.audio.num_mel_bins,
            clock=clock,
            max_sessions=self.settings.thinker.num_audio_streams,
            executor=executor,
        )
        self._pump = MessagePump(self._receive)
        self._deliver = self._pump.put

    @property
    def session_positions(self) -> int:
        """Context that each live session can have when all of them are there."""
        return self.settings.thinker.session_positions

    def start(self, report: Report = _say_nothing) -> None:
        """Warm everything up, telling *report*, and begin to answer."""
        self.loop.warm_up(report)
        self._pump.start()
        self.loop.start()

    def deliver_inline(self) -> None:
        """Instead of `start`, for tests that step the loop themselves: no threads."""
        self._deliver = self._receive

    def submit(self, request: GenerationRequest) -> RequestHandle:
        """Start a request. Raises as `Orchestrator.submit`."""
        return self.orchestrator.submit(request)

    def snapshot(self) -> Mapping[str, float]:
        """Gauges of the stages, and how often each optimisation was used or fell back."""
        return {**self.loop.snapshot(), **self.counters.snapshot()}

    def close(self) -> None:
        """Abort what runs, end all threads."""
        self.orchestrator.close()
        self.duplex.close()
        self.loop.stop()
        self._pump.stop()

    def _receive(self, message: FrontMessage) -> None:
        self.orchestrator.receive(message)
        self.duplex.receive(message)

    def __enter__(self) -> "LocalEngine":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
