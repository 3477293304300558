"""What answers the prompts of `Omni`: the engine, many at once, or the eager generator, one after another."""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from queue import SimpleQueue
from typing import Protocol

from antiphon.core.errors import EngineError
from antiphon.engine.counter_noise import CounterNoise
from antiphon.models.code2wav.counter_source import CounterSourceNoise
from antiphon.pipeline.eager.chat import ChatGenerator, ChatRequest
from antiphon.pipeline.eager.vocoder import Vocoder
from antiphon.pipeline.events import Aborted, AudioChunk, ChatEvent, Failed, Finished, RequestEvent
from antiphon.pipeline.omni_engine import OmniEngine
from antiphon.pipeline.omni_model import OmniModel
from antiphon.pipeline.orchestrator import RequestHandle
from antiphon.pipeline.request import GenerationRequest
from antiphon.pipeline.speech import SAMPLES_PER_CODE
from antiphon.pipeline.voice_book import PreparedVoice, VoiceBook

ReportCodes = Callable[[int], None]
Answers = Generator[tuple[GenerationRequest, list[ChatEvent]], None, None]  # each with all its events


class Backend(Protocol):
    """Answers built requests."""

    @property
    def voices(self) -> VoiceBook: ...

    def check(self, request: GenerationRequest) -> None:
        """Refuse what could only fail later."""
        ...

    def answer_all(self, requests: Sequence[GenerationRequest]) -> Answers:
        """Answer *requests*; gives each with its events when it is finished. Close the iterator to drop the rest.

        Raises:
            AntiphonError: of the first that fails; the rest are dropped.
        """
        ...

    def stream(self, request: GenerationRequest, report_codes: ReportCodes | None) -> Iterator[ChatEvent]:
        """Answer one request event by event. Close the iterator to abort. Raises as `answer_all`."""
        ...

    def abort(self, request_id: str) -> None: ...

    def close(self) -> None: ...


class EngineBackend:
    """The engine, on threads of this process or in worker processes.

    Args:
        engine: started.
        max_in_flight: requests submitted at a time; more would only wait.
    """

    def __init__(self, engine: OmniEngine, *, max_in_flight: int) -> None:
        self._engine = engine
        self._max_in_flight = max_in_flight

    @property
    def voices(self) -> VoiceBook:
        return self._engine.voices

    def check(self, request: GenerationRequest) -> None:
        self._engine.orchestrator.check(request)

    def answer_all(self, requests: Sequence[GenerationRequest]) -> Answers:
        waiting = deque(requests)
        news: SimpleQueue[str] = SimpleQueue()
        running: dict[str, tuple[GenerationRequest, RequestHandle, list[ChatEvent]]] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self._max_in_flight:
                    request = waiting.popleft()
                    handle = self._engine.submit(request)
                    running[request.request_id] = (request, handle, [])
                    handle.listen(_teller(news, request.request_id))
                request_id = news.get()
                if request_id not in running:
                    continue
                request, handle, events = running[request_id]
                while request_id in running and (event := handle.take(0)) is not None:
                    events.append(_unless_failed(event))
                    if isinstance(event, Finished):
                        del running[request_id]
                        yield request, events
        finally:
            for _, handle, _ in running.values():
                handle.abort()

    def stream(self, request: GenerationRequest, report_codes: ReportCodes | None) -> Iterator[ChatEvent]:
        handle = self._engine.submit(request)
        return self._stream(handle, report_codes)

    def _stream(self, handle: RequestHandle, report_codes: ReportCodes | None) -> Iterator[ChatEvent]:
        num_samples = 0
        try:
            for event in handle:
                if isinstance(event, AudioChunk) and report_codes is not None:
                    num_samples += len(event.samples)
                    report_codes(num_samples // SAMPLES_PER_CODE)
                yield _unless_failed(event)
        finally:
            handle.abort()

    def abort(self, request_id: str) -> None:
        self._engine.orchestrator.abort(request_id)

    def close(self) -> None:
        self._engine.close()


class EagerBackend:
    """The eager generator with the engine's draws: the same seeds give the same tokens and codes as the engine.

    Args:
        num_steps: ODE steps of speech voiced in chunks.
        voice_in_chunks: also voice spans as the engine does; otherwise in one piece, as the reference does.
    """

    def __init__(self, model: OmniModel, *, voices: VoiceBook, num_steps: int, voice_in_chunks: bool) -> None:
        self._generator = ChatGenerator(model, noise=CounterNoise, source_noise=CounterSourceNoise)
        self._voices = voices
        self._num_steps = num_steps
        self._voice_in_chunks = voice_in_chunks
        self._vocoder: tuple[str, Vocoder] | None = None  # of the last voice

    @property
    def voices(self) -> VoiceBook:
        return self._voices

    def check(self, request: GenerationRequest) -> None:
        self._generator.check(self._chat(request, vocoder=None if request.voice is None else self._of(request.voice)))

    def answer_all(self, requests: Sequence[GenerationRequest]) -> Answers:
        for request in requests:
            yield request, list(self.stream(request, None))

    def stream(self, request: GenerationRequest, report_codes: ReportCodes | None) -> Iterator[ChatEvent]:
        vocoder = None if request.voice is None else self._of(request.voice)
        return self._generator.run(self._chat(request, vocoder), report_codes=report_codes)

    def abort(self, request_id: str) -> None:
        """Nothing runs while somebody could call this."""

    def close(self) -> None:
        """Nothing runs between two answers."""

    def _chat(self, request: GenerationRequest, vocoder: Vocoder | None) -> ChatRequest:
        return ChatRequest(
            prompt=request.prompt,
            sampling=request.sampling,
            vocoder=vocoder,
            handoff=request.handoff,
            voice_in_chunks=self._voice_in_chunks,
        )

    def _of(self, voice: PreparedVoice) -> Vocoder:
        code2wav = self._generator.model.code2wav
        assert code2wav is not None
        if self._vocoder is None or self._vocoder[0] != voice.key:
            self._vocoder = (voice.key, Vocoder(code2wav, voice.features, num_steps=self._num_steps))
        return self._vocoder[1]


def _teller(news: "SimpleQueue[str]", request_id: str) -> Callable[[], None]:
    return lambda: news.put(request_id)


def _unless_failed(event: RequestEvent) -> ChatEvent:
    if isinstance(event, Failed):
        raise event.error
    if isinstance(event, Aborted):
        raise EngineError("the request was aborted")
    return event
