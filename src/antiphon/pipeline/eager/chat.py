"""One chat request at batch 1, from a built prompt to text and speech: the slow twin of the engine's chat path."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from antiphon.core.handoff import Handoff
from antiphon.core.outputs import RequestMetrics
from antiphon.core.sampling import MAX_SEED, SamplingParams
from antiphon.engine.noise import NoiseSource, SeededNoise
from antiphon.models.code2wav.hift_source import SeededSourceNoise, SourceNoise
from antiphon.pipeline.eager.answer_speech import ReportCodes, SpanSpeech, StreamSpeech
from antiphon.pipeline.eager.answer_text import AnswerText, SpokenToken
from antiphon.pipeline.eager.prompt_rows import embed_prompt
from antiphon.pipeline.eager.text_sampling import TextSampler
from antiphon.pipeline.eager.thinker import ThinkerSequence
from antiphon.pipeline.eager.vocoder import Vocoder
from antiphon.pipeline.events import AudioChunk, ChatEvent, Finished, TextDelta
from antiphon.pipeline.omni_model import OmniModel
from antiphon.pipeline.request_checks import RequestLimits, check_request
from antiphon.pipeline.speech import PIECE_TOKENS, SPEECH_RATE_HZ
from antiphon.prompt.chat_prompt import ChatPrompt


@dataclass(frozen=True, kw_only=True)
class ChatRequest:
    """A built prompt and how to answer it.

    Attributes:
        vocoder: None: text only, and neither Talker nor Code2Wav is touched.
        voice_in_chunks: voice a span chunk by chunk, as the engine does; otherwise in one piece, as the reference does.
            The stream hand-off always voices in chunks.
    """

    prompt: ChatPrompt
    sampling: tuple[SamplingParams, SamplingParams, SamplingParams]  # thinker, talker, code2wav
    vocoder: Vocoder | None = None
    handoff: Handoff = Handoff.SPAN
    voice_in_chunks: bool = False


class ChatGenerator:
    """Answers requests one after another.

    Args:
        model: the loaded model.
        clock: gives seconds.
        noise: makes the source of a stage's draws from its seed; the engine's twin takes `CounterNoise`.
        source_noise: makes the noise of the vocoder's excitation from its seed.
    """

    def __init__(
        self,
        model: OmniModel,
        *,
        clock: Callable[[], float] = perf_counter,
        noise: Callable[[int], NoiseSource] = SeededNoise,
        source_noise: Callable[[int], SourceNoise] = SeededSourceNoise,
    ) -> None:
        self.model = model
        self._clock = clock
        self._noise = noise
        self._source_noise = source_noise

    def check(self, request: ChatRequest) -> None:
        """Refuse what could only fail later. Raises as `check_request`."""
        config = self.model.config
        limits = RequestLimits(
            vocab_size=config.vocab_size,
            thinker_positions=config.llm.max_positions,
            talker_positions=config.talker.decoder.max_positions,
        )
        check_request(
            limits,
            num_prompt=len(request.prompt.ids),
            sampling=request.sampling,
            handoff=None if request.vocoder is None else request.handoff,
        )

    def run(self, request: ChatRequest, *, report_codes: ReportCodes | None = None) -> Iterator[ChatEvent]:
        """Check and answer *request*. Close the iterator to abort.

        Args:
            report_codes: called with the number of codec ids drawn so far, after each draw.
        """
        self.check(request)
        return self._run(request, report_codes or _ignore)

    def _run(self, request: ChatRequest, report_codes: ReportCodes) -> Iterator[ChatEvent]:
        watch = _Watch(self._clock)
        answer = self._start(request)
        speech = self._speech(request, report_codes)
        streams = request.handoff is Handoff.STREAM

        def speak(tokens: Sequence[SpokenToken], *, is_last: bool) -> Iterator[ChatEvent]:
            if speech is not None:
                for samples in speech.speak(tokens, is_last=is_last):
                    watch.audio(len(samples))
                    yield AudioChunk(samples.float().cpu().numpy(), SPEECH_RATE_HZ)

        texts = answer.run()
        while True:
            with torch.inference_mode():
                piece = next(texts, None)
            if piece is None:
                break
            if piece:
                watch.text()
                yield TextDelta(piece, len(answer.ids))
            # A full piece is handed on only once a token behind it shows that it is not the last one.
            if streams and len(answer.speech.waiting) > PIECE_TOKENS:
                yield from speak(answer.speech.take(PIECE_TOKENS), is_last=False)
        watch.text_end()
        yield from speak(answer.speech.take(), is_last=True)
        assert answer.finish_reason is not None
        codes = speech.codes if speech is not None else ()
        yield Finished(
            text=answer.text,
            token_ids=tuple(answer.ids),
            finish_reason=answer.finish_reason,
            codec_ids=codes,
            speech_finish_reason=speech.finish_reason if speech is not None else None,
            metrics=watch.metrics(len(request.prompt.ids), len(answer.ids), len(codes)),
        )

    @torch.inference_mode()
    def _start(self, request: ChatRequest) -> AnswerText:
        """Prefill the prompt."""
        model, params = self.model, request.sampling[0]
        special = model.tokenizer.special
        sampler = TextSampler(
            params,
            end_ids=(special.im_end, special.tts_eos, special.endoftext),
            vocab_size=model.config.vocab_size,
            noise=self._noise(_seed(params)),
        )
        sequence = ThinkerSequence(model.thinker)
        hidden: Tensor = sequence.feed(embed_prompt(model, request.prompt))
        return AnswerText(
            sequence,
            hidden[-1],
            sampler=sampler,
            tokenizer=model.tokenizer,
            max_tokens=params.max_tokens,
            stop=params.stop,
        )

    def _speech(self, request: ChatRequest, report_codes: ReportCodes) -> SpanSpeech | StreamSpeech | None:
        if request.vocoder is None:
            return None
        assert self.model.talker is not None
        _, talker_params, code2wav_params = request.sampling
        request.vocoder.source_noise = self._source_noise(_seed(code2wav_params))
        noise = self._noise(_seed(talker_params))
        model = (self.model.talker, request.vocoder, talker_params, noise, report_codes)
        if request.handoff is Handoff.STREAM:
            return StreamSpeech(*model)
        return SpanSpeech(*model, in_chunks=request.voice_in_chunks)


class _Watch:
    """Notes when things happen to one request."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._start_s = clock()
        self._first_text_s: float | None = None
        self._first_audio_s: float | None = None
        self._text_end_s = 0.0
        self._num_samples = 0

    def text(self) -> None:
        if self._first_text_s is None:
            self._first_text_s = self._clock() - self._start_s

    def text_end(self) -> None:
        self._text_end_s = self._clock() - self._start_s

    def audio(self, num_samples: int) -> None:
        if self._first_audio_s is None:
            self._first_audio_s = self._clock() - self._start_s
        self._num_samples += num_samples

    def metrics(self, num_prompt_tokens: int, num_text_tokens: int, num_codec_frames: int) -> RequestMetrics:
        return RequestMetrics(
            num_prompt_tokens=num_prompt_tokens,
            num_text_tokens=num_text_tokens,
            num_codec_frames=num_codec_frames,
            audio_duration_s=self._num_samples / SPEECH_RATE_HZ,
            time_to_first_text_s=self._first_text_s,
            text_finished_s=self._text_end_s,
            time_to_first_audio_s=self._first_audio_s,
            total_s=self._clock() - self._start_s,
        )


def _seed(params: SamplingParams) -> int:
    return secrets.randbelow(MAX_SEED) if params.seed is None else params.seed


def _ignore(num_codes: int) -> None:
    """Report to nobody."""
