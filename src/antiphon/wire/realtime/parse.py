"""JSON object to client event: aliases of names and fields, then types, refusing by name."""

from typing import get_args

import msgspec

from antiphon.wire.realtime import client_events as events
from antiphon.wire.realtime.client_events import ClientEvent
from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.json_frame import JsonObject

TYPE_ALIASES = {
    "close": "session.close",
    "close_session": "session.close",
    "input_text.append": "input.text.append",
    "push_text": "input.text.append",
    "signal_turn": "turn.signal",
    "audio.playback_ack": "playback.ack",
}
# Of two spellings in one event, the first one listed in the specification wins.
FIELD_ALIASES = {
    "input_audio_buffer.append": {
        "delta": "audio",
        "input_audio_format": "format",
        "sample_rate": "sample_rate_hz",
        "speech": "is_speech",
        "overlap": "overlap_action",
        "text": "transcript",
    },
    "input_audio_buffer.commit": {"create_response": "response_create", "text": "transcript"},
}
EVENT_TYPES: dict[str, type[ClientEvent]] = {str(kind.__struct_config__.tag): kind for kind in get_args(ClientEvent)}


def event_of(body: JsonObject) -> ClientEvent:
    """The event that *body* is; *body* itself stays as it is.

    Raises:
        RealtimeError: `bad_event` or `unknown_event`, with the event's own id.
    """
    event_id = body.get("event_id")
    known_id = event_id if isinstance(event_id, str) else None
    name = body.get("type")
    if not isinstance(name, str):
        raise RealtimeError("bad_event", "type is missing or no string", param="type", event_id=known_id)
    try:
        return _convert(TYPE_ALIASES.get(name, name), body)
    except RealtimeError as error:
        error.event_id = known_id
        raise


def _convert(name: str, body: JsonObject) -> ClientEvent:
    fields = dict(body)
    if name == "input.commit":  # as input_audio_buffer.commit, but it asks for an answer unless told otherwise
        name = "input_audio_buffer.commit"
        if fields.get("response_create") is None and fields.get("create_response") is None:
            fields["response_create"] = True
    kind = EVENT_TYPES.get(name)
    if kind is None:
        raise RealtimeError("unknown_event", f"unknown event type {name!r}"[:200], param="type")
    for alias, field in FIELD_ALIASES.get(name, {}).items():
        if fields.get(field) is None and fields.get(alias) is not None:
            fields[field] = fields[alias]
    if kind is events.SessionUpdate and not isinstance(fields.get("session"), dict):
        fields = {"session": {key: value for key, value in body.items() if key not in ("type", "event_id", "session")}}
        if body.get("event_id") is not None:
            fields["event_id"] = body["event_id"]
    fields["type"] = name
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        param = path.removesuffix("`").lstrip(".") or None
        raise RealtimeError("bad_event", f"{param or name}: {reason}", param=param) from None
