"""What a client of OpenAI's dialect may send, brought to the session's own events."""

from antiphon.wire.realtime.client_events import ClientEvent
from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.json_frame import JsonObject
from antiphon.wire.realtime.openai_session import to_native
from antiphon.wire.realtime.parse import event_of

# Fields that are read. Others of an event are left alone: vLLM-Omni's hints have no meaning here.
FIELDS = {
    "session.update": ("session",),
    "input_audio_buffer.append": ("audio",),
    "input_audio_buffer.commit": (),
    "input_audio_buffer.clear": (),
    "conversation.item.create": ("item", "previous_item_id"),
    "conversation.item.retrieve": ("item_id",),
    "conversation.item.delete": ("item_id",),
    "conversation.item.truncate": ("item_id", "content_index", "audio_end_ms"),
    "response.create": ("response",),
    "response.cancel": ("response_id",),
    "output_audio_buffer.clear": (),
}
_FOREIGN = ("extra_body", "ref_audio", "modalities", "sample_rate_hz")


def is_foreign(body: JsonObject) -> bool:
    """Whether a client that begins with *body* speaks vLLM-Omni's dialect, not this one."""
    if body.get("type") not in FIELDS:
        return isinstance(body.get("type"), str)
    session = body.get("session", body)
    return body["type"] == "session.update" and isinstance(session, dict) and any(key in session for key in _FOREIGN)


def openai_event(body: JsonObject, kept: JsonObject) -> ClientEvent:
    """The event that *body* is. *kept* is what earlier updates of the session left to be shown.

    Raises:
        RealtimeError: `bad_event`, `unknown_event`, or what is wrong with a session, with the event's own id.
    """
    name, event_id = body.get("type"), _id(body.get("event_id"))
    if not isinstance(name, str):
        raise RealtimeError("bad_event", "type is missing or no string", param="type", event_id=event_id)
    if name not in FIELDS:
        raise RealtimeError(
            "unknown_event", f"unknown event type {name!r} in this dialect"[:200], param="type", event_id=event_id
        )
    known = {key: body[key] for key in ("type", "event_id", *FIELDS[name]) if body.get(key) is not None}
    if name != "session.update":
        return event_of(known)
    session = known.get("session")
    if not isinstance(session, dict):
        raise RealtimeError("bad_event", "session is missing or no object", param="session", event_id=event_id)
    try:
        known["session"] = to_native(session, kept)
    except RealtimeError as error:
        error.event_id = event_id
        raise
    return event_of(known)


def _id(event_id: object) -> str | None:
    return event_id if isinstance(event_id, str) else None
