"""What a server sends, as a client sees it: one frozen type for each event that clients look at, and a general one.

`raw` is the event as it came, so that nothing of a newer server is lost.
"""

import binascii
from base64 import b64decode
from dataclasses import dataclass

from antiphon.client.errors import DuplexProtocolError
from antiphon.wire.realtime.json_frame import JsonObject


@dataclass(frozen=True, eq=False)
class DuplexEvent:
    """Any event. Properties are None where the event has no such field."""

    raw: JsonObject

    @property
    def type(self) -> str:
        return str(self.raw.get("type", ""))

    @property
    def event_id(self) -> str | None:
        return _text(self.raw.get("event_id"))

    @property
    def session_id(self) -> str | None:
        return _text(self.raw.get("session_id")) or _text(_object(self.raw, "session").get("id"))

    @property
    def response_id(self) -> str | None:
        return _text(self.raw.get("response_id")) or _text(_object(self.raw, "response").get("id"))

    @property
    def item_id(self) -> str | None:
        return _text(self.raw.get("item_id")) or _text(_object(self.raw, "item").get("id"))

    @property
    def server_event_seq(self) -> int | None:
        seq = self.raw.get("server_event_seq")
        return seq if isinstance(seq, int) and not isinstance(seq, bool) else None

    @property
    def sample_rate_hz(self) -> int | None:
        rate = self.raw.get("sample_rate_hz")
        return rate if isinstance(rate, int) and not isinstance(rate, bool) else None

    @property
    def audio(self) -> str | None:
        """Base64, as on the wire; only `AudioDelta` has any."""
        return None

    @property
    def text(self) -> str | None:
        return next((str(self.raw[key]) for key in ("text", "delta", "transcript") if _text(self.raw.get(key))), None)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(type={self.type!r})"


@dataclass(frozen=True, eq=False, repr=False)
class SessionCreated(DuplexEvent):
    @property
    def session(self) -> JsonObject:
        return _object(self.raw, "session")

    @property
    def resume_token(self) -> str | None:
        return _text(self.raw.get("resume_token"))


@dataclass(frozen=True, eq=False, repr=False)
class SessionResumed(SessionCreated):
    pass


@dataclass(frozen=True, eq=False, repr=False)
class SessionUpdated(DuplexEvent):
    @property
    def session(self) -> JsonObject:
        return _object(self.raw, "session")


@dataclass(frozen=True, eq=False, repr=False)
class SessionClosed(DuplexEvent):
    @property
    def reason(self) -> str:
        return str(self.raw.get("reason", ""))


@dataclass(frozen=True, eq=False, repr=False)
class SessionExpired(DuplexEvent):
    @property
    def reason(self) -> str:
        return str(self.raw.get("reason", ""))


@dataclass(frozen=True, eq=False, repr=False)
class ResponseCreated(DuplexEvent):
    pass


@dataclass(frozen=True, eq=False, repr=False)
class ResponseDone(DuplexEvent):
    @property
    def status(self) -> str:
        return str(_object(self.raw, "response").get("status", ""))


@dataclass(frozen=True, eq=False, repr=False)
class AudioDelta(DuplexEvent):
    @property
    def audio(self) -> str | None:
        return _text(self.raw.get("delta"))

    @property
    def text(self) -> str | None:
        return None

    @property
    def pcm(self) -> bytes:
        """The samples. Raises DuplexProtocolError for what is no base64."""
        try:
            return b64decode(self.audio or "", validate=True)
        except binascii.Error:
            raise DuplexProtocolError("an audio delta is no base64", code="bad_audio", raw=self.raw) from None


@dataclass(frozen=True, eq=False, repr=False)
class TranscriptDelta(DuplexEvent):
    pass


@dataclass(frozen=True, eq=False, repr=False)
class TextDelta(DuplexEvent):
    pass


@dataclass(frozen=True, eq=False, repr=False)
class ListenDecision(DuplexEvent):
    @property
    def reason(self) -> str | None:
        metadata = _object(_object(self.raw, "response"), "metadata")
        return _text(self.raw.get("reason")) or _text(metadata.get("reason"))


@dataclass(frozen=True, eq=False, repr=False)
class SpeakDecision(DuplexEvent):
    pass


@dataclass(frozen=True, eq=False, repr=False)
class ConnectionResumed(DuplexEvent):
    """Made by the client: the connection was lost, and is there again. `raw["attempt"]` counts from 1."""


@dataclass(frozen=True, eq=False, repr=False)
class ErrorEvent(DuplexEvent):
    """Both shapes: the envelope of a session, and the flat one of a route that refuses."""

    @property
    def code(self) -> str | None:
        return _text(_object(self.raw, "error").get("code")) or _text(self.raw.get("code"))

    @property
    def message(self) -> str:
        error = self.raw.get("error")
        found = error if isinstance(error, str) else _object(self.raw, "error").get("message")
        return _text(found) or self.code or "the server reports an error"

    @property
    def related_event_id(self) -> str | None:
        return _text(_object(self.raw, "error").get("event_id"))

    def to_exception(self) -> DuplexProtocolError:
        return DuplexProtocolError(self.message, code=self.code, event_id=self.related_event_id, raw=self.raw)


_TYPES: dict[str, type[DuplexEvent]] = {
    "session.created": SessionCreated,
    "session.resumed": SessionResumed,
    "session.updated": SessionUpdated,
    "session.closed": SessionClosed,
    "session.expired": SessionExpired,
    "response.created": ResponseCreated,
    "response.done": ResponseDone,
    "response.output_audio.delta": AudioDelta,
    "response.output_audio_transcript.delta": TranscriptDelta,
    "response.output_text.delta": TextDelta,
    "response.text.delta": TextDelta,
    "response.listen": ListenDecision,
    "response.speak": SpeakDecision,
    "connection.resumed": ConnectionResumed,
    "error": ErrorEvent,
}


def wrap_event(raw: JsonObject) -> DuplexEvent:
    """The typed event of *raw*."""
    return _TYPES.get(str(raw.get("type")), DuplexEvent)(raw)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _object(body: JsonObject, key: str) -> JsonObject:
    found = body.get(key)
    return found if isinstance(found, dict) else {}
