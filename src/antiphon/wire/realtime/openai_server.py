"""Server events in OpenAI's spelling: what stays, what is renamed, what is left out (specification section 17.1)."""

from typing import cast

import msgspec

from antiphon.wire.realtime import server_events as events
from antiphon.wire.realtime.json_frame import JsonObject
from antiphon.wire.realtime.openai_session import from_public
from antiphon.wire.realtime.server_events import ServerEvent

# Tier 3: these clients have no word for them.
DROPPED = (
    events.SessionResumed
    | events.SessionReplaced
    | events.SessionResyncRequired
    | events.SessionClosed
    | events.SessionExpired
    | events.HeartbeatAck
    | events.SessionWarning
    | events.ItemCreated
    | events.Listen
    | events.Speak
    | events.OverlapDecided
    | events.TurnChanged
    | events.PlaybackAcknowledged
    | events.OutputAudioCleared
)
_NOT_SENT = {
    "server_event_seq",
    "attachment_generation",
    "resume_token",
    "event",
    "format",
    "sample_rate_hz",
    "metadata",
}
_NOT_IN_PARTS = {"audio_duration_ms", "audio_text_marks", "is_speech"}
_ITEM_STATUS = {"cancelled": "incomplete", "failed": "incomplete"}
_CODES = {
    "input_audio_buffer_empty": "input_audio_buffer_commit_empty",
    "response_not_active": "response_cancel_not_active",
    "response_already_active": "conversation_already_has_active_response",
}
_SERVER_REASONS = {"barge_in", "turn_detected"}


def openai_frame(event: ServerEvent, conversation_id: str) -> bytes | None:
    """The frame that *event* becomes; None where there is none."""
    if isinstance(event, DROPPED):
        return None
    body = cast(JsonObject, msgspec.to_builtins(event))
    for key in _NOT_SENT & body.keys():
        del body[key]
    if isinstance(event, events.SessionCreated | events.SessionUpdated):
        body["session"] = from_public(event.session)
    elif isinstance(event, events.ResponseCreated | events.ResponseDone):
        del body["response_id"]
        body["response"] = openai_response(event.response, conversation_id)
    elif isinstance(event, events.Error):
        body["error"] = openai_error(event.error)
    elif isinstance(event, events.ItemTruncated):
        body["audio_end_ms"] = round(event.audio_end_ms)
    if isinstance(body.get("item"), dict):
        body["item"] = openai_item(cast(JsonObject, body["item"]))
    return msgspec.json.encode(body)


def openai_item(item: JsonObject) -> JsonObject:
    """Nobody here knows an item that was cut off by anything but `incomplete`."""
    status, content = item["status"], cast("list[JsonObject]", item["content"])
    return {
        **item,
        "status": _ITEM_STATUS.get(str(status), status),
        "content": [{key: part[key] for key in part if key not in _NOT_IN_PARTS} for part in content],
    }


def openai_response(response: JsonObject, conversation_id: str) -> JsonObject:
    speaks = "audio" in cast("list[object]", response["modalities"])
    metadata = cast(JsonObject, response["metadata"])
    return {
        "id": response["id"],
        "object": response["object"],
        "status": response["status"],
        "status_details": _details(cast("JsonObject | None", response["status_details"])),
        "output": [openai_item(item) for item in cast("list[JsonObject]", response["output"])],
        "conversation_id": conversation_id,
        "output_modalities": ["audio"] if speaks else ["text"],
        "metadata": {key: value for key, value in metadata.items() if isinstance(value, str)},
        "usage": response.get("usage"),
    }


def openai_error(error: JsonObject) -> JsonObject:
    code, message = str(error["code"]), str(error["message"])
    if code == "response_not_active":
        message = f"Cancellation failed: {message}"
    return {
        "type": error["type"],
        "code": _CODES.get(code, code),
        "message": message,
        "param": error.get("param"),
        "event_id": error.get("event_id"),
    }


def _details(details: JsonObject | None) -> JsonObject | None:
    if details is None or details["type"] == "completed":
        return None
    if details["type"] == "failed":
        return {"type": "failed", "error": details.get("error")}
    if details["type"] == "incomplete":
        return {"type": "incomplete", "reason": details["reason"]}
    is_server = details["reason"] in _SERVER_REASONS
    return {"type": details["type"], "reason": "turn_detected" if is_server else "client_cancelled"}
