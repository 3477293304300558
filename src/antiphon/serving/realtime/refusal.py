"""Frames for sockets that get no session: refusals of a route, and errors of the handshake."""

import uuid
from dataclasses import dataclass

from msgspec import structs

from antiphon.realtime.emitter import error_body
from antiphon.serving.realtime.settings import RealtimeSettings
from antiphon.wire.realtime import server_events as events
from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.flat_error import render_flat_error
from antiphon.wire.realtime.query import DIALECTS, RealtimeQuery
from antiphon.wire.realtime.server_events import ServerEvent, render

_NORMAL, _POLICY = 1000, 1008


@dataclass(frozen=True)
class Refusal:
    frame: bytes
    close_code: int


def refusal_of(query: RealtimeQuery, settings: RealtimeSettings, *, is_alias: bool) -> Refusal | None:
    """None: the route serves this query (specification section 1.1)."""
    if settings.num_api_workers > 1:
        text = "duplex sessions need a single API process"
        return Refusal(render_flat_error("multi_api_duplex_unsupported", text), _POLICY)
    if not settings.is_duplex:
        text = "this deployment has no duplex model"
        return Refusal(render_flat_error("unsupported", text), _NORMAL if is_alias else _POLICY)
    if query.dialect is not None and query.dialect not in DIALECTS:
        text = f"unknown dialect {query.dialect!r}; known: {', '.join(DIALECTS)}"[:200]
        return Refusal(render_flat_error("unsupported", text), _POLICY)
    if query.wants_turn_handler and not is_alias:
        return Refusal(render_flat_error("unsupported", "this deployment serves duplex sessions only"), _NORMAL)
    return None


def single_error(error: RealtimeError) -> bytes:
    """The one error of a handshake that failed, in the envelope."""
    return _stamped(events.Error(error=error_body(error)))


def resync_frame(session_id: str) -> bytes:
    return _stamped(events.SessionResyncRequired(session_id=session_id, reason="journal_gap"))


def _stamped(event: ServerEvent) -> bytes:
    return render(structs.replace(event, event_id=f"event_{uuid.uuid4().hex}"))
