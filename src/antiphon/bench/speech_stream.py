"""Reads the body of a streamed speech request into a timeline: bytes of PCM or WAV, or OpenAI's audio events."""

import base64
import json

from antiphon.bench.audio_payload import PCM_RATE_HZ, Sound, measure_sound, wav_header_bytes
from antiphon.bench.sse import END_MARK, SseDecoder
from antiphon.bench.timeline import Answer, AudioArrival

_MAX_HEADER_BYTES = 4096


class SpeechStream:
    """What has come of one spoken text. Every piece of the body counts as one audio event.

    Args:
        is_events: the body is a stream of server-sent events, not bytes of audio.
        keeps_audio: keep the samples themselves, not only how many there are.
    """

    def __init__(self, *, is_events: bool, keeps_audio: bool = False) -> None:
        self._keeps_audio = keeps_audio
        self._decoder = SseDecoder() if is_events else None
        self._audios: list[AudioArrival] = []
        self._pending = b""  # bytes of a header or of a sample that are not complete yet
        self._sound: Sound | None = None
        self._last_event_s = 0.0
        self._error: str | None = None

    def feed(self, piece: bytes, at_s: float) -> None:
        """Take bytes of the body that came *at_s* seconds after the request was sent."""
        self._last_event_s = at_s
        if self._decoder is None:
            self._take_audio(piece, at_s)
            return
        for payload in self._decoder.feed(piece):
            if payload.strip() != END_MARK:
                self._take_event(payload, at_s)

    def close(self) -> Answer:
        """The body has ended; one without sound is a failure."""
        if self._error is None and not any(arrival.num_frames for arrival in self._audios):
            self._error = "the answer holds no sound"
        return Answer(e2e_s=self._last_event_s, audios=tuple(self._audios), finish_reason="stop", error=self._error)

    def _take_event(self, payload: bytes, at_s: float) -> None:
        try:
            event = json.loads(payload)
            data = event.get("audio") or event.get("delta") or "" if isinstance(event, dict) else ""
            if isinstance(event, dict) and event.get("error"):
                self._error = self._error or json.dumps(event["error"], ensure_ascii=False)[:400]
            elif isinstance(data, str) and data:
                self._take_audio(base64.b64decode(data, validate=True), at_s)
        except ValueError as error:
            self._error = self._error or f"an event cannot be read: {error}"

    def _take_audio(self, piece: bytes, at_s: float) -> None:
        self._pending += piece
        if self._sound is None:
            begin = 0
            if self._pending[:4] == b"RIFF"[: len(self._pending)]:
                header_bytes = wav_header_bytes(self._pending)
                if header_bytes is None and len(self._pending) < _MAX_HEADER_BYTES:
                    return
                begin = header_bytes or 0
            try:
                self._sound = measure_sound(self._pending, pcm_rate_hz=PCM_RATE_HZ)
            except ValueError as error:
                self._error = self._error or str(error)
                self._pending = b""
                return
            self._pending = self._pending[begin:]
        num_frames = len(self._pending) // self._sound.frame_bytes if self._sound.frame_bytes else 0
        num_bytes = num_frames * self._sound.frame_bytes
        samples, self._pending = self._pending[:num_bytes], self._pending[num_bytes:]
        self._audios.append(
            AudioArrival(
                at_s=at_s,
                num_frames=num_frames,
                sample_rate_hz=self._sound.sample_rate_hz,
                num_channels=self._sound.num_channels,
                payload=samples if self._keeps_audio else b"",
            )
        )
