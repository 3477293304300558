"""The front's view of one request: stage outputs become text, samples, times, and one last event."""

from collections.abc import Sequence

from antiphon.core.outputs import FinishReason, RequestMetrics
from antiphon.pipeline.events import AudioChunk, Finished, TextDelta
from antiphon.pipeline.messages import DrawnCodes, RequestOutput, SpeechEnd, SpeechSamples, TextEnd, TextTokens
from antiphon.pipeline.speech import SPEECH_RATE_HZ
from antiphon.prompt.detokenizer import Detokenizer, StopStrings
from antiphon.prompt.tokenizer import Tokenizer


class Answer:
    """Collects one answer. It is complete when the text has ended and, if it is spoken, the samples have too.

    Args:
        tokenizer: the model's.
        stop: stop strings.
        speaks: whether samples are to come.
        num_prompt_tokens: for the metrics.
        start_s: when the request came.
    """

    def __init__(
        self, tokenizer: Tokenizer, *, stop: Sequence[str], speaks: bool, num_prompt_tokens: int, start_s: float
    ) -> None:
        self._detokenizer = Detokenizer(tokenizer)
        self._stops = StopStrings(stop)
        self._num_prompt_tokens = num_prompt_tokens
        self._start_s = start_s
        self._ids: list[int] = []
        self._codes: list[int] = []
        self._text = ""
        self._text_end: TextEnd | None = None
        self._speech_reason: FinishReason | None = None
        self._awaits_samples = speaks
        self._num_samples = 0
        self._first_text_s: float | None = None
        self._first_audio_s: float | None = None
        self._text_end_s = 0.0
        self._queue_wait_s: float | None = None
        self._first_code_s: float | None = None
        self._codes_end_s: float | None = None
        self._replicas = (0, 0, 0)

    @property
    def is_complete(self) -> bool:
        return self._text_end is not None and not self._awaits_samples

    def sent(self, now_s: float, replicas: tuple[int, int, int]) -> None:
        """The stages have been given the request; *replicas* as in `RequestMetrics`."""
        self._queue_wait_s = now_s - self._start_s
        self._replicas = replicas

    def receive(self, output: RequestOutput, now_s: float) -> TextDelta | AudioChunk | None:
        """Take a stage's output; returns what the reader may have of it."""
        elapsed_s = now_s - self._start_s
        if isinstance(output, TextTokens):
            self._ids += output.ids
            return self._show(self._decode(output.ids), elapsed_s)
        if isinstance(output, TextEnd):
            self._text_end = output
            self._text_end_s = elapsed_s
            self._ids += () if output.stop_id is None else (output.stop_id,)
            held = "" if self._stops.is_hit else self._stops.push(self._detokenizer.finish()) + self._stops.finish()
            return self._show(held, elapsed_s)
        if isinstance(output, DrawnCodes):
            self._first_code_s = elapsed_s if self._first_code_s is None else self._first_code_s
            self._codes += output.codes
        elif isinstance(output, SpeechEnd):
            self._codes_end_s = elapsed_s
            self._speech_reason = output.reason
        elif isinstance(output, SpeechSamples):
            self._awaits_samples = self._awaits_samples and not output.is_last
            if len(output.samples):
                self._num_samples += len(output.samples)
                self._first_audio_s = elapsed_s if self._first_audio_s is None else self._first_audio_s
                return AudioChunk(output.samples, SPEECH_RATE_HZ)
        return None

    def finish(self, now_s: float) -> Finished:
        """The last event of a complete answer."""
        assert self._text_end is not None
        return Finished(
            text=self._text,
            token_ids=tuple(self._ids),
            finish_reason=self._text_end.reason,
            codec_ids=tuple(self._codes),
            speech_finish_reason=self._speech_reason,
            metrics=RequestMetrics(
                num_prompt_tokens=self._num_prompt_tokens,
                num_text_tokens=len(self._ids),
                num_cached_tokens=self._text_end.num_cached_tokens,
                num_codec_frames=len(self._codes),
                audio_duration_s=self._num_samples / SPEECH_RATE_HZ,
                time_to_first_text_s=self._first_text_s,
                text_finished_s=self._text_end_s,
                time_to_first_audio_s=self._first_audio_s,
                total_s=now_s - self._start_s,
                queue_wait_s=self._queue_wait_s,
                first_code_s=self._first_code_s,
                codes_finished_s=self._codes_end_s,
                replicas=self._replicas,
            ),
        )

    def _decode(self, ids: Sequence[int]) -> str:
        return "".join(self._stops.push(self._detokenizer.push(token_id)) for token_id in ids)

    def _show(self, piece: str, elapsed_s: float) -> TextDelta | None:
        if not piece:
            return None
        self._text += piece
        self._first_text_s = elapsed_s if self._first_text_s is None else self._first_text_s
        return TextDelta(piece, len(self._ids))
