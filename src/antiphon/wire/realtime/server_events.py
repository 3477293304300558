"""What the server sends, in vLLM-Omni's spelling: one class for each event (specification section 7).

`UNSET` fields are absent on the wire. `event_id` and `server_event_seq` are stamped by the session's emitter.
"""

from typing import get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

from antiphon.wire.realtime.json_frame import JsonObject


class _Event(Struct, frozen=True, kw_only=True, tag_field="type"):
    event_id: str = ""
    server_event_seq: int | UnsetType = UNSET


# --- session


class SessionCreated(_Event, frozen=True, kw_only=True, tag="session.created"):
    session: JsonObject
    attachment_generation: int | UnsetType = UNSET
    resume_token: str | UnsetType = UNSET


class SessionUpdated(_Event, frozen=True, kw_only=True, tag="session.updated"):
    session: JsonObject


class SessionResumed(_Event, frozen=True, kw_only=True, tag="session.resumed"):
    session_id: str
    session: JsonObject
    attachment_generation: int
    resume_token: str


class SessionReplaced(_Event, frozen=True, kw_only=True, tag="session.replaced"):
    session_id: str
    attachment_generation: int


class SessionResyncRequired(_Event, frozen=True, kw_only=True, tag="session.resync_required"):
    session_id: str
    reason: str


class SessionClosed(_Event, frozen=True, kw_only=True, tag="session.closed"):
    session_id: str
    reason: str
    event: JsonObject


class SessionExpired(_Event, frozen=True, kw_only=True, tag="session.expired"):
    session_id: str
    reason: str


class HeartbeatAck(_Event, frozen=True, kw_only=True, tag="session.heartbeat_ack"):
    session_id: str


class SessionWarning(_Event, frozen=True, kw_only=True, tag="session.warning"):
    session_id: str
    code: str
    message: str
    details: JsonObject


# --- input


class SpeechStarted(_Event, frozen=True, kw_only=True, tag="input_audio_buffer.speech_started"):
    audio_start_ms: int
    item_id: str


class SpeechStopped(_Event, frozen=True, kw_only=True, tag="input_audio_buffer.speech_stopped"):
    audio_end_ms: int
    item_id: str


class InputCommitted(_Event, frozen=True, kw_only=True, tag="input_audio_buffer.committed"):
    previous_item_id: str | None
    item_id: str
    event: JsonObject


class InputCleared(_Event, frozen=True, kw_only=True, tag="input_audio_buffer.cleared"):
    pass


# --- conversation


class ItemAdded(_Event, frozen=True, kw_only=True, tag="conversation.item.added"):
    previous_item_id: str | None
    item: JsonObject


class ItemCreated(_Event, frozen=True, kw_only=True, tag="conversation.item.created"):
    previous_item_id: str | None
    item: JsonObject


class ItemDone(_Event, frozen=True, kw_only=True, tag="conversation.item.done"):
    previous_item_id: str | None
    item: JsonObject


class ItemRetrieved(_Event, frozen=True, kw_only=True, tag="conversation.item.retrieved"):
    item: JsonObject


class ItemDeleted(_Event, frozen=True, kw_only=True, tag="conversation.item.deleted"):
    item_id: str
    event: JsonObject


class ItemTruncated(_Event, frozen=True, kw_only=True, tag="conversation.item.truncated"):
    item_id: str
    content_index: int
    audio_end_ms: float
    event: JsonObject


class TranscriptionCompleted(
    _Event, frozen=True, kw_only=True, tag="conversation.item.input_audio_transcription.completed"
):
    item_id: str
    transcript: str
    content_index: int = 0


# --- response


class ResponseCreated(_Event, frozen=True, kw_only=True, tag="response.created"):
    response_id: str
    response: JsonObject


class ResponseDone(_Event, frozen=True, kw_only=True, tag="response.done"):
    response_id: str
    response: JsonObject


class OutputItemAdded(_Event, frozen=True, kw_only=True, tag="response.output_item.added"):
    response_id: str
    item: JsonObject
    output_index: int = 0


class OutputItemDone(_Event, frozen=True, kw_only=True, tag="response.output_item.done"):
    response_id: str
    item: JsonObject
    output_index: int = 0


class _Piece(_Event, frozen=True, kw_only=True):
    """Something that belongs to one content part of a response's item."""

    response_id: str
    item_id: str
    output_index: int = 0
    content_index: int = 0


class ContentPartAdded(_Piece, frozen=True, kw_only=True, tag="response.content_part.added"):
    part: JsonObject


class ContentPartDone(_Piece, frozen=True, kw_only=True, tag="response.content_part.done"):
    part: JsonObject


class AudioDelta(_Piece, frozen=True, kw_only=True, tag="response.output_audio.delta"):
    delta: str
    format: str
    sample_rate_hz: int
    metadata: JsonObject


class AudioDone(_Piece, frozen=True, kw_only=True, tag="response.output_audio.done"):
    pass


class TranscriptDelta(_Piece, frozen=True, kw_only=True, tag="response.output_audio_transcript.delta"):
    delta: str


class TranscriptDone(_Piece, frozen=True, kw_only=True, tag="response.output_audio_transcript.done"):
    transcript: str


class TextDelta(_Piece, frozen=True, kw_only=True, tag="response.output_text.delta"):
    delta: str


class TextDone(_Piece, frozen=True, kw_only=True, tag="response.output_text.done"):
    text: str


class Listen(_Event, frozen=True, kw_only=True, tag="response.listen"):
    """The model listens: a beat of its own, or (with `response_id`) the end of a response that said nothing."""

    session_id: str
    epoch: int
    reason: str
    response: JsonObject
    response_id: str | UnsetType = UNSET


class Speak(_Event, frozen=True, kw_only=True, tag="response.speak"):
    response_id: str
    item_id: str
    metadata: JsonObject
    output_index: int = 0


# --- policy, playback and the rest


class OverlapDecided(_Event, frozen=True, kw_only=True, tag="overlap.decision"):
    session_id: str
    epoch: int
    policy: str
    action: str
    reason: str
    metadata: JsonObject


class TurnChanged(_Event, frozen=True, kw_only=True, tag="turn.event"):
    session_id: str
    event: str
    turn_state: str
    epoch: int


class PlaybackAcknowledged(_Event, frozen=True, kw_only=True, tag="playback.acknowledged"):
    event: JsonObject


class OutputAudioCleared(_Event, frozen=True, kw_only=True, tag="output_audio_buffer.cleared"):
    response_id: str | None


class RateLimitsUpdated(_Event, frozen=True, kw_only=True, tag="rate_limits.updated"):
    rate_limits: list[JsonObject] = []


class Error(_Event, frozen=True, kw_only=True, tag="error"):
    error: JsonObject


ServerEvent = (
    SessionCreated
    | SessionUpdated
    | SessionResumed
    | SessionReplaced
    | SessionResyncRequired
    | SessionClosed
    | SessionExpired
    | HeartbeatAck
    | SessionWarning
    | SpeechStarted
    | SpeechStopped
    | InputCommitted
    | InputCleared
    | ItemAdded
    | ItemCreated
    | ItemDone
    | ItemRetrieved
    | ItemDeleted
    | ItemTruncated
    | TranscriptionCompleted
    | ResponseCreated
    | ResponseDone
    | OutputItemAdded
    | OutputItemDone
    | ContentPartAdded
    | ContentPartDone
    | AudioDelta
    | AudioDone
    | TranscriptDelta
    | TranscriptDone
    | TextDelta
    | TextDone
    | Listen
    | Speak
    | OverlapDecided
    | TurnChanged
    | PlaybackAcknowledged
    | OutputAudioCleared
    | RateLimitsUpdated
    | Error
)
SERVER_TYPES: dict[str, type[ServerEvent]] = {str(kind.__struct_config__.tag): kind for kind in get_args(ServerEvent)}


def render(event: ServerEvent) -> bytes:
    """*event* as the text frame that goes on the wire, UTF-8."""
    return msgspec.json.encode(event)
