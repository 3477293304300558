"""How a session opens: from the first frame and the query to settings (specification sections 2 and 4)."""

from dataclasses import dataclass, replace

from msgspec import UNSET

from antiphon.realtime.dialects.dialect import Dialect
from antiphon.realtime.resume import ResumeRequest, parse_resume
from antiphon.realtime.settings import SessionSettings, apply_session
from antiphon.realtime.voice import parse_voice
from antiphon.wire.realtime.client_events import ClientEvent, SessionResume, SessionUpdate
from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.json_frame import JsonObject, parse_object
from antiphon.wire.realtime.session_fields import parse_session


@dataclass(frozen=True)
class Opening:
    """A session to open, and the event that was sent instead of a `session.update`, to be run behind it."""

    session: JsonObject
    then: ClientEvent | None = None


def autostart() -> Opening:
    """A session by query alone."""
    return Opening({})


def first_frame(frame: str, dialect: Dialect) -> Opening | ResumeRequest:
    """What the first frame of a connection asks for.

    Raises:
        RealtimeError: `invalid_json`, `bad_event`, `event_too_large`, `unknown_event` or `invalid_session_resume`.
    """
    asked = dialect.parse(parse_object(frame))
    if not asked:
        raise RealtimeError("bad_event", "the first frame has to open a session")
    event = asked[0]
    if isinstance(event, SessionResume):
        return parse_resume(event)
    if isinstance(event, SessionUpdate):
        return Opening(event.session)
    return Opening({}, event)


def opening_settings(opening: Opening, *, model: str | None, defaults: SessionSettings) -> SessionSettings:
    """The settings that a session begins with. *model* is the query's; one in the payload wins.

    Raises:
        RealtimeError: whatever is wrong with the payload, by the codes of section 4.4.
    """
    parsed = parse_session(opening.session)
    voice = parsed.fields.ref_audio
    reference = None if voice is UNSET else parse_voice(voice)
    settings = apply_session(replace(defaults, model=model or defaults.model), parsed, reference)
    if settings.speaks and settings.reference is None:
        raise RealtimeError("ref_audio_required", "this server has no default voice; send ref_audio as a data URL")
    return settings
