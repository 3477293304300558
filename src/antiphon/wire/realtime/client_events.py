"""What a client may send, after aliases are resolved: one class for each event.

Fields are named as on the wire. Unknown fields are ignored, as the reference does: clients add their own.
"""

from msgspec import Struct

from antiphon.wire.realtime.json_frame import JsonObject


class _Event(Struct, frozen=True, kw_only=True, tag_field="type"):
    event_id: str | None = None


class SessionUpdate(_Event, frozen=True, kw_only=True, tag="session.update"):
    session: JsonObject


class SessionResume(_Event, frozen=True, kw_only=True, tag="session.resume"):
    """Legal as the first frame of a connection only. Shapes are checked there: a wrong one has its own code."""

    session_id: object = None
    resume_token: object = None
    last_received_server_event_seq: object = 0


class SessionEventAck(_Event, frozen=True, kw_only=True, tag="session.event_ack"):
    server_event_seq: object = None


class SessionHeartbeat(_Event, frozen=True, kw_only=True, tag="session.heartbeat"):
    pass


class SessionClose(_Event, frozen=True, kw_only=True, tag="session.close"):
    reason: str | None = None


class VadHint(Struct, frozen=True):
    """What the client's own detector found."""

    is_speech: bool | None = None
    speech_probability: float | None = None
    probability: float | None = None
    silence_rms: float | None = None


class InputAudioAppend(_Event, frozen=True, kw_only=True, tag="input_audio_buffer.append"):
    """A piece of sound, and the frames of the second that it closes."""

    audio: str | None = None
    format: object = None
    sample_rate_hz: object = None
    video_frames: object = None
    max_slice_nums: object = None
    is_speech: bool | None = None
    speech_probability: float | None = None
    vad: VadHint | None = None
    overlap_action: str | None = None
    force_barge_in: bool = False
    force_listen: bool = False
    transcript: str | None = None
    overlap_silence_rms: float | None = None


class InputAudioCommit(_Event, frozen=True, kw_only=True, tag="input_audio_buffer.commit"):
    final: bool = True
    response_create: bool | None = None  # None: the server decides
    is_speech: bool | None = None
    transcript: str | None = None


class InputAudioClear(_Event, frozen=True, kw_only=True, tag="input_audio_buffer.clear"):
    pass


class InputCancel(_Event, frozen=True, kw_only=True, tag="input.cancel"):
    pass


class InputTextAppend(_Event, frozen=True, kw_only=True, tag="input.text.append"):
    text: str | None = None


class ItemCreate(_Event, frozen=True, kw_only=True, tag="conversation.item.create"):
    item: JsonObject
    previous_item_id: str | None = None


class ItemRetrieve(_Event, frozen=True, kw_only=True, tag="conversation.item.retrieve"):
    item_id: str | None = None


class ItemDelete(_Event, frozen=True, kw_only=True, tag="conversation.item.delete"):
    item_id: str | None = None


class ItemTruncate(_Event, frozen=True, kw_only=True, tag="conversation.item.truncate"):
    audio_end_ms: float
    item_id: str | None = None
    content_index: int = 0


class ResponseCreate(_Event, frozen=True, kw_only=True, tag="response.create"):
    response: JsonObject | None = None


class ResponseCancel(_Event, frozen=True, kw_only=True, tag="response.cancel"):
    response_id: str | None = None


class OutputAudioClear(_Event, frozen=True, kw_only=True, tag="output_audio_buffer.clear"):
    response_id: str | None = None


class BargeIn(_Event, frozen=True, kw_only=True, tag="barge_in"):
    pass


class TurnSignal(_Event, frozen=True, kw_only=True, tag="turn.signal"):
    event: str
    payload: JsonObject | None = None


class PlaybackAck(_Event, frozen=True, kw_only=True, tag="playback.ack"):
    played_ms: float
    committed_ms: float | None = None
    response_id: str | None = None
    item_id: str | None = None
    truncate: object = None  # honoured only when it is literally true


ClientEvent = (
    SessionUpdate
    | SessionResume
    | SessionEventAck
    | SessionHeartbeat
    | SessionClose
    | InputAudioAppend
    | InputAudioCommit
    | InputAudioClear
    | InputCancel
    | InputTextAppend
    | ItemCreate
    | ItemRetrieve
    | ItemDelete
    | ItemTruncate
    | ResponseCreate
    | ResponseCancel
    | OutputAudioClear
    | BargeIn
    | TurnSignal
    | PlaybackAck
)
