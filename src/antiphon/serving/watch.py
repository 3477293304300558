"""Follows one request for metrics and logs: when what happened, and how it ended, once."""

import logging
from collections.abc import Callable
from time import perf_counter

from antiphon.core.outputs import RequestMetrics
from antiphon.pipeline.events import Aborted, AudioChunk, Failed, Finished, RequestEvent, TextDelta
from antiphon.serving.playback import Playback
from antiphon.telemetry.families import CONTINUITY_MS, Families
from antiphon.telemetry.logs import FIELDS
from antiphon.telemetry.traces import RequestTrace
from antiphon.telemetry.vllm_families import VllmFamilies

_log = logging.getLogger(__name__)

THINKER_STAGE, TALKER_STAGE, VOCODER_STAGE = "0", "1", "2"


class RequestWatch:
    """One request.

    Args:
        families: None: metrics are off.
        arrival_s: when its head came, on *clock*.
        speaks: whether speech was asked for.
        is_streamed: the times of pieces mean something to the client.
        trace: told how it ends; None: traces are off.
    """

    def __init__(
        self,
        families: Families | None,
        *,
        arrival_s: float,
        speaks: bool,
        is_streamed: bool,
        trace: RequestTrace | None = None,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._families = families
        self._arrival_s = arrival_s
        self._speaks = speaks
        self._is_streamed = is_streamed
        self._trace = trace
        self._clock = clock
        self._num_tokens = 0
        self._token_s = 0.0  # when the last of them came
        self._gaps: list[tuple[float, int]] = []  # seconds before a token, and of how many tokens that is true
        self._playback = Playback()
        self._first_text_s: float | None = None
        self._first_audio_s: float | None = None
        self._num_samples = 0
        self._is_ended = False
        if families is not None:
            families.of(families.num_requests_running).inc()

    def see(self, event: RequestEvent) -> None:
        """Something came from the pipeline."""
        now_s = self._clock()
        if isinstance(event, TextDelta):
            self._see_text(event, now_s)
        elif isinstance(event, AudioChunk):
            self._first_audio_s = now_s if self._first_audio_s is None else self._first_audio_s
            self._num_samples += len(event.samples)
            self._playback.arrive(now_s, len(event.samples) / event.sample_rate_hz)
        elif isinstance(event, Finished):
            self._finish(event)
        elif isinstance(event, Failed):
            self.fail("stage_error")
        else:
            assert isinstance(event, Aborted)
            self.fail("client_abort")

    def fail(self, reason: str) -> None:
        """The request ended otherwise. Only the first end counts."""
        if not self._end():
            return
        _log.info("request failed", extra={FIELDS: {"reason": reason, "total_s": self._elapsed()}})
        if self._trace is not None:
            self._trace.fail(reason)
        families = self._families
        if families is not None:
            families.of(families.requests_failed, reason).inc()
            families.of(families.requests_success, "abort").inc()

    def _see_text(self, event: TextDelta, now_s: float) -> None:
        if self._first_text_s is None:
            self._first_text_s = now_s
        elif event.num_tokens > self._num_tokens:
            num_new = event.num_tokens - self._num_tokens
            self._gaps.append(((now_s - self._token_s) / num_new, num_new))
        self._num_tokens, self._token_s = event.num_tokens, now_s

    def _finish(self, event: Finished) -> None:
        if not self._end():
            return
        metrics = event.metrics
        line = {
            "finish_reason": event.finish_reason.value,
            "prompt_tokens": metrics.num_prompt_tokens,
            "text_tokens": metrics.num_text_tokens,
            "audio_s": round(metrics.audio_duration_s, 2),
            "ttft_ms": _ms(self._since(self._first_text_s)),
            "ttfp_ms": _ms(self._since(self._first_audio_s)),
            "total_s": self._elapsed(),
        }
        _log.info("request answered", extra={FIELDS: line})
        if self._trace is not None:
            self._trace.finish(
                metrics,
                finish_reason=event.finish_reason.value,
                ttft_s=self._since(self._first_text_s),
                speaks=self._speaks,
            )
        if self._families is not None:
            self._observe(self._families, event, metrics)

    def _observe(self, families: Families, event: Finished, metrics: RequestMetrics) -> None:
        families.of(families.requests_success, event.finish_reason.value).inc()
        families.of(families.e2e_request_latency_s).observe(self._clock() - self._arrival_s)
        families.of(families.prompt_tokens).inc(metrics.num_prompt_tokens)
        families.of(families.generation_tokens).inc(metrics.num_text_tokens + metrics.num_codec_frames)
        if metrics.queue_wait_s is not None:
            families.of(families.request_queue_wait_s).observe(metrics.queue_wait_s)
        self._observe_stages(families.vllm, event)
        families.of(families.stage_gen_time_s, THINKER_STAGE, "text").observe(metrics.text_finished_s)
        first_text_s = self._since(self._first_text_s)
        if self._is_streamed and first_text_s is not None:
            families.of(families.ttft_s).observe(first_text_s)
        if not self._speaks:
            return
        place = (VOCODER_STAGE, str(metrics.replicas[2]))
        if not self._num_samples:
            families.of(families.audio_skipped_requests, *place, "no_audio_data").inc()
            return
        if metrics.codes_finished_s is not None:
            families.of(families.stage_gen_time_s, TALKER_STAGE, "stream").observe(metrics.codes_finished_s)
        families.of(families.stage_gen_time_s, VOCODER_STAGE, "audio").observe(metrics.total_s)
        families.of(families.audio_duration_s, *place).observe(metrics.audio_duration_s)
        families.of(families.audio_rtf, *place).observe(metrics.rtf or 0.0)
        families.of(families.audio_frames, *place).inc(self._num_samples)
        first_audio_s = self._since(self._first_audio_s)
        if self._is_streamed and first_audio_s is not None:
            families.of(families.audio_ttfp_s, *place).observe(first_audio_s)
            families.of(families.audio_underrun_s, *place).observe(self._playback.worst_gap_s)
            if self._playback.worst_gap_s * 1000 <= CONTINUITY_MS:
                families.of(families.audio_continuity_ok, *place, str(CONTINUITY_MS)).inc()

    def _observe_stages(self, families: VllmFamilies, event: Finished) -> None:
        metrics = event.metrics
        thinker, talker, _ = map(str, metrics.replicas)
        families.of(families.prompt_tokens, THINKER_STAGE, thinker).inc(metrics.num_prompt_tokens)
        families.of(families.generation_tokens, THINKER_STAGE, thinker).inc(metrics.num_text_tokens)
        families.of(families.success, THINKER_STAGE, thinker, event.finish_reason.value).inc()
        families.of(families.request_s, THINKER_STAGE, thinker).observe(metrics.text_finished_s)
        if self._first_text_s is not None:
            families.of(families.first_token_s, THINKER_STAGE, thinker).observe(self._first_text_s - self._arrival_s)
        families.token_gaps.add(metrics.replicas[0], self._gaps)
        if metrics.num_codec_frames and event.speech_finish_reason is not None:
            families.of(families.generation_tokens, TALKER_STAGE, talker).inc(metrics.num_codec_frames)
            families.of(families.success, TALKER_STAGE, talker, event.speech_finish_reason.value).inc()

    def _end(self) -> bool:
        if self._is_ended:
            return False
        self._is_ended = True
        if self._families is not None:
            self._families.of(self._families.num_requests_running).dec()
        return True

    def _since(self, moment_s: float | None) -> float | None:
        return None if moment_s is None else moment_s - self._arrival_s

    def _elapsed(self) -> float:
        return round(self._clock() - self._arrival_s, 4)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)
