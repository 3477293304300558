"""What the server sends in OpenBMB's `map.realtime`: one class for each frame (specification section 18)."""

import msgspec
from msgspec import UNSET, Struct, UnsetType

from antiphon.wire.realtime.json_frame import JsonObject


class _Frame(Struct, frozen=True, kw_only=True, tag_field="type"):
    event_id: str


class SessionQueued(_Frame, frozen=True, kw_only=True, tag="session.queued"):
    """A place in the queue: 1 is next."""

    position: int
    queue_length: int
    estimated_wait_s: float


class QueueUpdate(SessionQueued, frozen=True, kw_only=True, tag="session.queue_update"):
    pass


class QueueDone(_Frame, frozen=True, kw_only=True, tag="session.queue_done"):
    """The client sends `session.init` behind it, and not before."""


class MapCreated(_Frame, frozen=True, kw_only=True, tag="session.created"):
    session_id: str


class OutputDelta(_Frame, frozen=True, kw_only=True, tag="response.output.delta"):
    """`kind` is audio, text or listen; clients read one payload of a frame."""

    kind: str
    end_of_turn: bool = False
    audio: str | UnsetType = UNSET
    text: str | UnsetType = UNSET


class TurnEnd(_Frame, frozen=True, kw_only=True, tag="response.listen"):
    """One for each response, however it ended. `usage` is of the session so far."""

    usage: JsonObject


class MapClosed(_Frame, frozen=True, kw_only=True, tag="session.closed"):
    reason: str


class MapError(_Frame, frozen=True, kw_only=True, tag="error"):
    """Its client closes on any error."""

    error: JsonObject


MapServerFrame = SessionQueued | QueueUpdate | QueueDone | MapCreated | OutputDelta | TurnEnd | MapClosed | MapError


def render_map(frame: MapServerFrame) -> bytes:
    return msgspec.json.encode(frame)
