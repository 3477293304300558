"""Keeps what matters of a session's events: text and audio with their times, and what is still open."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite

from antiphon.bench.duplex_eval.sentences import TextPiece

Event = Mapping[str, object]

_TEXT_EVENTS = frozenset(
    {"response.output_audio_transcript.delta", "response.output_text.delta", "response.text.delta"}
)  # fmt: skip
_AUDIO_EVENTS = frozenset({"response.output_audio.delta", "response.audio.delta"})
_BYTES_PER_SAMPLE = 2
DEFAULT_RATE_HZ = 24_000


@dataclass
class ResponseTimes:
    """One response on the session's clock, in seconds; None where nothing came."""

    response_id: str
    created_s: float
    first_text_s: float | None = None
    first_audio_s: float | None = None
    last_audio_s: float | None = None
    audio_s: float = 0.0
    status: str | None = None  # None: not ended
    server_ttft_ms: float | None = None
    server_ttfp_ms: float | None = None


@dataclass
class Transcript:
    """Everything said in one session."""

    pieces: list[TextPiece] = field(default_factory=list)
    responses: dict[str, ResponseTimes] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    num_listens: int = 0
    last_output_s: float | None = None  # of the last text, audio, end of a response, or decision to listen

    @property
    def is_speaking(self) -> bool:
        return any(response.status is None for response in self.responses.values())

    def receive(self, event: Event, now_s: float) -> tuple[str, float] | None:
        """Take *event*; returns a response's id and the seconds of audio in it, if it brought any."""
        kind = str(event.get("type", ""))
        if kind == "error":
            self.errors.append(error_text(event))
            return None
        if kind == "response.listen":
            self.num_listens += 1
            self.last_output_s = now_s
            if response_id := _response_id(event):
                self._response(response_id, now_s).status = "listening"
            return None
        if not kind.startswith("response."):
            return None
        response = self._response(_response_id(event), now_s)
        self._note_server_times(event, response)
        if kind in _TEXT_EVENTS:
            self._add_text(event, response, now_s)
        elif kind in _AUDIO_EVENTS:
            return self._add_audio(event, response, now_s)
        elif kind == "response.done":
            body = event.get("response")
            response.status = str(body.get("status", "completed")) if isinstance(body, dict) else "completed"
            self.last_output_s = now_s
        return None

    def _response(self, response_id: str, now_s: float) -> ResponseTimes:
        return self.responses.setdefault(response_id, ResponseTimes(response_id, now_s))

    def _add_text(self, event: Event, response: ResponseTimes, now_s: float) -> None:
        text = event.get("delta")
        if isinstance(text, str) and text:
            self.pieces.append(TextPiece(response.response_id, text, now_s))
            self.last_output_s = now_s
            if response.first_text_s is None:
                response.first_text_s = now_s

    def _add_audio(self, event: Event, response: ResponseTimes, now_s: float) -> tuple[str, float] | None:
        encoded, rate = event.get("delta"), event.get("sample_rate_hz", DEFAULT_RATE_HZ)
        try:
            num_bytes = len(base64.b64decode(encoded, validate=True)) if isinstance(encoded, str) else 0
        except binascii.Error:
            self.errors.append("the server sent audio that is not base64")
            return None
        duration_s = num_bytes / _BYTES_PER_SAMPLE / (rate if isinstance(rate, int) and rate > 0 else DEFAULT_RATE_HZ)
        if not duration_s:
            return None
        response.audio_s += duration_s
        response.first_audio_s = now_s if response.first_audio_s is None else response.first_audio_s
        response.last_audio_s = self.last_output_s = now_s
        return response.response_id, duration_s

    def _note_server_times(self, event: Event, response: ResponseTimes) -> None:
        """Latencies from the server's own stamp of the request's start, wherever they stand in the event."""
        for place in _metric_places(event):
            found = place.get("response_request_metrics")
            # Only an object says what the figures are measured from.
            if isinstance(found, dict) and isinstance(found.get("measurement_origin"), dict):
                response.server_ttft_ms = _milliseconds(found.get("ttft_ms"), response.server_ttft_ms)
                response.server_ttfp_ms = _milliseconds(found.get("ttfp_ms"), response.server_ttfp_ms)


def error_text(event: Event) -> str:
    error = event.get("error")
    body: Event = error if isinstance(error, dict) else {}
    return f"{body.get('code', 'error')}: {body.get('message', '')}".rstrip(": ")


def error_code(event: Event) -> str:
    error = event.get("error")
    return str(error.get("code", "")) if isinstance(error, dict) else ""


def _response_id(event: Event) -> str:
    body = event.get("response")
    found = event.get("response_id") or (body.get("id") if isinstance(body, dict) else None)
    return found if isinstance(found, str) else ""


def _metric_places(event: Event) -> list[Event]:
    places: list[Event] = [event]
    for outer in (event, event.get("response")):
        metadata = outer.get("metadata") if isinstance(outer, dict) else None
        if isinstance(metadata, dict):
            places += [
                metadata,
                *(part for part in map(metadata.get, ("vllm_omni", "duplex_event")) if isinstance(part, dict)),
            ]
    return places


def _milliseconds(value: object, known: float | None) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and isfinite(value) and value >= 0
    return float(value) if is_number else known  # type: ignore[arg-type]
