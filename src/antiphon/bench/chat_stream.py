"""Reads the chunks of a streamed chat completion, of any OpenAI-compatible server, into a timeline.

Audio is taken from a chunk of `modality: "audio"` whose `delta.content` is base64 (vLLM-Omni), and from
`delta.audio.data` (OpenAI).
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any

from antiphon.bench.audio_payload import PCM_RATE_HZ, Sound, measure_sound
from antiphon.bench.sse import END_MARK, SseDecoder
from antiphon.bench.timeline import Answer, AudioArrival, TextArrival, Usage

_MAX_ERROR_CHARS = 400


class ChatStream:
    """What has come of one answer. It never raises on what a server sends: a broken answer ends with its `error`.

    Args:
        keeps_audio: keep the sound itself, not only how much there is.
    """

    def __init__(self, *, keeps_audio: bool = False) -> None:
        self._keeps_audio = keeps_audio
        self._decoder = SseDecoder()
        self._texts: list[TextArrival] = []
        self._audios: list[AudioArrival] = []
        self._usage: Usage | None = None
        self._stage_metrics: dict[str, dict[str, object]] = {}
        self._finish_reason: str | None = None
        self._num_dropped_audio = 0
        self._error: str | None = None
        self._last_event_s = 0.0
        self._has_ended = False
        self._first_sound: Sound | None = None

    def feed(self, piece: bytes, at_s: float) -> None:
        """Take bytes of the body that came *at_s* seconds after the request was sent."""
        for payload in self._decoder.feed(piece):
            self._take_event(payload, at_s)

    def close(self) -> Answer:
        """The body has ended: an answer cut off is a failure."""
        if not self._has_ended and self._finish_reason is None:
            self._fail("the stream ended before the answer did")
        return Answer(
            e2e_s=self._last_event_s,
            texts=tuple(self._texts),
            audios=tuple(self._audios),
            usage=self._usage,
            stage_metrics=self._stage_metrics,
            finish_reason=self._finish_reason,
            num_dropped_audio=self._num_dropped_audio,
            error=self._error,
        )

    def _take_event(self, payload: bytes, at_s: float) -> None:
        if payload.strip() == END_MARK:
            self._has_ended = True
            return
        self._last_event_s = at_s
        try:
            chunk = json.loads(payload)
        except ValueError:
            self._fail(f"an event is not JSON: {payload[:80]!r}")
            return
        if not isinstance(chunk, dict):
            self._fail(f"an event is no object: {payload[:80]!r}")
            return
        if chunk.get("error"):
            self._fail(json.dumps(chunk["error"], ensure_ascii=False))
            return
        num_new_tokens = self._take_usage(chunk)
        self._take_stage_metrics(chunk)
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else []:
            if isinstance(choice, dict):
                self._take_choice(choice, chunk, at_s, num_new_tokens)
                num_new_tokens = 0 if num_new_tokens else num_new_tokens  # a count of the chunk, not of the choice

    def _take_choice(self, choice: Mapping[str, Any], chunk: Mapping[str, Any], at_s: float, new: int | None) -> None:
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            self._finish_reason = reason
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            return
        content = delta.get("content")
        text = content if isinstance(content, str) else ""
        audio = delta.get("audio")
        if isinstance(audio, dict) and isinstance(audio.get("data"), str):
            self._take_audio(audio["data"], choice, at_s)
        elif chunk.get("modality") == "audio":
            if isinstance(content, str):  # the chunk of the end has none: it is no audio event
                self._take_audio(content, choice, at_s)
            return
        if isinstance(audio, dict) and isinstance(audio.get("transcript"), str):
            text = text or audio["transcript"]
        if new is None:
            token_ids = choice.get("token_ids")
            new = len(token_ids) if isinstance(token_ids, list) and token_ids else int(bool(text))
        if new or text:
            self._texts.append(TextArrival(at_s=at_s, num_tokens=new, text=text))

    def _take_audio(self, data: str, choice: Mapping[str, Any], at_s: float) -> None:
        first = self._first_sound
        if not data:
            rate_hz = first.sample_rate_hz if first else PCM_RATE_HZ
            self._audios.append(AudioArrival(at_s=at_s, num_frames=0, sample_rate_hz=rate_hz))
            return
        facts = choice.get("audio_metadata")
        stated_hz = facts.get("sample_rate_hz") if isinstance(facts, dict) else None
        rate_hz = stated_hz if isinstance(stated_hz, int) and stated_hz > 0 else PCM_RATE_HZ
        try:
            payload = base64.b64decode(data, validate=True)
            sound = measure_sound(payload, pcm_rate_hz=rate_hz)
        except (ValueError, binascii.Error) as error:
            self._fail(str(error))
            return
        if first is None:
            self._first_sound = sound
        elif sound.layout != first.layout:
            self._num_dropped_audio += 1
            return
        self._audios.append(
            AudioArrival(
                at_s=at_s,
                num_frames=sound.num_frames,
                sample_rate_hz=sound.sample_rate_hz,
                num_channels=sound.num_channels,
                payload=payload if self._keeps_audio else b"",
            )
        )

    def _take_usage(self, chunk: Mapping[str, Any]) -> int | None:
        """Tokens that this chunk adds by its usage; None if it carries none, or if it is of audio.

        The chunk of the end has no choices: what it adds is no arrival of text.
        """
        usage = chunk.get("usage")
        if not isinstance(usage, dict):
            return None
        before = self._usage or Usage(prompt_tokens=0, completion_tokens=0)
        self._usage = Usage(
            prompt_tokens=max(before.prompt_tokens, _count(usage.get("prompt_tokens"))),
            completion_tokens=max(before.completion_tokens, _count(usage.get("completion_tokens"))),
        )
        return self._usage.completion_tokens - before.completion_tokens

    def _take_stage_metrics(self, chunk: Mapping[str, Any]) -> None:
        metrics = chunk.get("metrics")
        stages = metrics.get("stage_metrics") if isinstance(metrics, dict) else None
        for stage, figures in stages.items() if isinstance(stages, dict) else ():
            if isinstance(figures, dict):
                self._stage_metrics.setdefault(str(stage), {}).update(figures)

    def _fail(self, message: str) -> None:
        if self._error is None:
            self._error = message[:_MAX_ERROR_CHARS]


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
