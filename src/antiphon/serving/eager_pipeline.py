"""The eager generator behind the server's port: one request after another, on a thread of its own.

It is the slow twin of the engine, and what serves where the engine cannot.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from queue import SimpleQueue
from time import perf_counter

import torch

from antiphon.core.errors import AntiphonError, CapacityError, EngineError, StateError
from antiphon.core.outputs import FinishReason, RequestMetrics
from antiphon.engine.counter_noise import CounterNoise
from antiphon.models.code2wav.code2wav import DEFAULT_STEPS
from antiphon.models.code2wav.hift_source import SeededSourceNoise
from antiphon.pipeline.device_loop import CODE2WAV, TALKER, THINKER
from antiphon.pipeline.eager.answer_speech import StreamSpeech
from antiphon.pipeline.eager.answer_text import SpokenToken
from antiphon.pipeline.eager.chat import ChatGenerator, ChatRequest
from antiphon.pipeline.eager.prompt_rows import embed_prompt
from antiphon.pipeline.eager.thinker import ThinkerSequence
from antiphon.pipeline.eager.vocoder import Vocoder
from antiphon.pipeline.events import Aborted, AudioChunk, ChatEvent, Failed, Finished, TextDelta
from antiphon.pipeline.health import Health, StageHealth
from antiphon.pipeline.omni_model import OmniModel
from antiphon.pipeline.orchestrator import RequestHandle
from antiphon.pipeline.output_queue import OutputQueue
from antiphon.pipeline.request import GenerationRequest, seed_of
from antiphon.pipeline.speech import PIECE_TOKENS, SPEECH_RATE_HZ
from antiphon.pipeline.voice_book import PreparedVoice

MAX_REQUESTS = 64
MAX_VOCODERS = 4
STAGES = (THINKER, TALKER, CODE2WAV)


class EagerPipeline:
    """Answers with *model*. Invariant: a request in `_outputs` has no end yet.

    Args:
        num_steps: ODE steps of the vocoder.
        max_requests: in flight; more are refused.
    """

    def __init__(self, model: OmniModel, *, num_steps: int = DEFAULT_STEPS, max_requests: int = MAX_REQUESTS) -> None:
        self._num_steps = num_steps
        self._model = model
        self._generator = ChatGenerator(model, noise=CounterNoise)
        self._max_requests = max_requests
        self._waiting: SimpleQueue[GenerationRequest | None] = SimpleQueue()
        self._outputs: dict[str, OutputQueue] = {}
        self._running: str | None = None
        self._lock = threading.Lock()
        self._vocoders: OrderedDict[str, Vocoder] = OrderedDict()
        self._num_answered = 0
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="antiphon-eager", daemon=True)
        self._thread.start()

    def submit(self, request: GenerationRequest) -> RequestHandle:
        """Queue *request*. Raises as `Orchestrator.submit`."""
        self._generator.check(self._chat_request(request))
        output = OutputQueue()
        with self._lock:
            if self._is_closed:
                raise StateError("the engine is closed")
            if request.request_id in self._outputs:
                raise StateError(f"request {request.request_id} is in flight already; use another id")
            if len(self._outputs) >= self._max_requests:
                raise CapacityError(f"{len(self._outputs)} requests are in flight, the limit; try again later")
            self._outputs[request.request_id] = output
            self._waiting.put(request)
        return RequestHandle(request.request_id, output, self.abort)

    def abort(self, request_id: str) -> None:
        """End a request; its work stops at the next token."""
        output = self._outputs.pop(request_id, None)
        if output is not None:
            output.end(Aborted())

    def health(self) -> Health:
        is_alive = self._thread.is_alive() and not self._is_closed
        stages = tuple(
            StageHealth(name=name, num_replicas=1, num_ready=int(is_alive), num_restarting=0) for name in STAGES
        )
        return Health(is_live=is_alive, is_ready=is_alive, is_draining=False, stages=stages, workers=())

    def counters(self) -> Mapping[str, float]:
        return {"eager_requests": self._num_answered}

    def gauges(self) -> Mapping[str, float]:
        num_running = int(self._running in self._outputs)
        return {"requests_running": num_running, "requests_waiting": len(self._outputs) - num_running}

    def close(self) -> None:
        """Abort everything and wait for the thread."""
        with self._lock:
            self._is_closed = True
        for request_id in list(self._outputs):
            self.abort(request_id)
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (request := self._waiting.get()) is not None:
            if request.request_id in self._outputs:
                self._running = request.request_id
                self._answer(request, self._outputs[request.request_id])
                self._running = None

    def _answer(self, request: GenerationRequest, output: OutputQueue) -> None:
        end: Finished | Failed = Failed(EngineError("the generation ended without a result"))
        try:
            for event in self._events(request):
                if isinstance(event, Finished):
                    end = event
                elif request.request_id not in self._outputs or not output.push(event):
                    break
        except AntiphonError as error:
            end = Failed(error)
        except Exception as error:  # noqa: BLE001 - the stage loop: one request's failure must not reach its neighbours
            end = Failed(EngineError(f"{type(error).__name__}: {error}"))
        self._num_answered += 1
        self._outputs.pop(request.request_id, None)
        output.end(end)

    def _events(self, request: GenerationRequest) -> Iterator[ChatEvent]:
        if request.given:
            return self._spoken(request)
        return self._generator.run(self._chat_request(request, self._vocoder(request.voice)))

    def _chat_request(self, request: GenerationRequest, vocoder: Vocoder | None = None) -> ChatRequest:
        return ChatRequest(
            prompt=request.prompt,
            sampling=request.sampling,
            vocoder=vocoder,
            handoff=request.handoff,
            voice_in_chunks=True,
        )

    def _vocoder(self, voice: PreparedVoice | None) -> Vocoder | None:
        if voice is None:
            return None
        assert self._model.code2wav is not None
        vocoder = self._vocoders.pop(voice.key, None) or Vocoder(
            self._model.code2wav, voice.features, num_steps=self._num_steps
        )
        self._vocoders[voice.key] = vocoder
        while len(self._vocoders) > MAX_VOCODERS:
            self._vocoders.popitem(last=False)
        return vocoder

    def _spoken(self, request: GenerationRequest) -> Iterator[ChatEvent]:
        """Speak a given text: its tokens are forwarded behind the prompt, and their rows condition the Talker."""
        start_s = perf_counter()
        vocoder, talker = self._vocoder(request.voice), self._model.talker
        assert vocoder is not None
        assert talker is not None
        _, talker_params, code2wav_params = request.sampling
        vocoder.source_noise = SeededSourceNoise(seed_of(code2wav_params))
        speech = StreamSpeech(talker, vocoder, talker_params, CounterNoise(seed_of(talker_params)), lambda _: None)
        tokens = self._given_rows(request)
        first_audio_s: float | None = None
        num_samples = 0
        yield TextDelta(self._model.tokenizer.decode(request.given, skip_special=True))
        pieces = [tokens[place : place + PIECE_TOKENS] for place in range(0, len(tokens), PIECE_TOKENS)]
        for number, piece in enumerate(pieces, start=1):
            for samples in speech.speak(piece, is_last=number == len(pieces)):
                num_samples += len(samples)
                first_audio_s = perf_counter() - start_s if first_audio_s is None else first_audio_s
                yield AudioChunk(samples.float().cpu().numpy(), SPEECH_RATE_HZ)
        yield Finished(
            text=self._model.tokenizer.decode(request.given, skip_special=True),
            token_ids=request.given,
            finish_reason=FinishReason.STOP,
            codec_ids=speech.codes,
            speech_finish_reason=speech.finish_reason,
            metrics=RequestMetrics(
                num_prompt_tokens=len(request.prompt.ids),
                num_text_tokens=len(request.given),
                num_codec_frames=len(speech.codes),
                audio_duration_s=num_samples / SPEECH_RATE_HZ,
                time_to_first_text_s=0.0,
                text_finished_s=0.0,
                time_to_first_audio_s=first_audio_s,
                total_s=perf_counter() - start_s,
            ),
        )

    @torch.inference_mode()
    def _given_rows(self, request: GenerationRequest) -> Sequence[SpokenToken]:
        sequence = ThinkerSequence(self._model.thinker)
        sequence.feed(embed_prompt(self._model, request.prompt))
        hidden = sequence.feed_ids(list(request.given))
        return [SpokenToken(token_id, hidden[place], 0) for place, token_id in enumerate(request.given)]
