"""The single way out of a session: stamps ids and sequence numbers, keeps the journal, fills the outbox."""

from collections.abc import Sequence

from msgspec import UNSET, structs

from antiphon.core.ids import IdSource
from antiphon.realtime.dialects.dialect import Dialect
from antiphon.realtime.journal import Journal
from antiphon.realtime.outbox import Outbox
from antiphon.wire.realtime import server_events as events
from antiphon.wire.realtime.errors import RealtimeError, error_type
from antiphon.wire.realtime.json_frame import JsonObject
from antiphon.wire.realtime.server_events import ServerEvent

_RESERVED = (events.Error, events.SessionWarning, events.ResponseDone)


class Emitter:
    """Writes events of one session. While nobody is attached they go to the journal alone.

    A dialect whose sessions cannot be resumed has neither sequence numbers nor a journal.
    """

    def __init__(self, ids: IdSource, journal: Journal, session_id: str, dialect: Dialect) -> None:
        self._ids = ids
        self.dialect = dialect
        self._journal = journal
        self._session_id = session_id
        self.outbox: Outbox | None = None
        self.is_silent = False  # the terminal event is out
        self.now_s = 0.0

    @property
    def is_overflown(self) -> bool:
        return self.outbox is not None and self.outbox.is_overflown

    def emit(self, event: ServerEvent) -> None:
        """Sequence, journal and send *event*."""
        if self.is_silent:
            return
        for frame in self._sequenced(event):
            if self.outbox is not None:
                self.outbox.put(frame, is_reserved=isinstance(event, _RESERVED))

    def emit_terminal(self, event: ServerEvent, reason: str) -> None:
        """The last event; the socket closes behind it, normally."""
        if self.is_silent:
            return
        frames = self._sequenced(event)
        self.is_silent = True
        if self.outbox is not None:
            for frame in frames:
                self.outbox.put_terminal(frame)
            self.outbox.close(1000, reason)

    def send_local(self, event: ServerEvent) -> None:
        """To the present socket only: not sequenced, never replayed."""
        for frame in self.stamp(event):
            if self.outbox is not None:
                self.outbox.put(frame, is_reserved=True)

    def error(self, error: RealtimeError, *, is_local: bool = False) -> None:
        event = events.Error(error=error_body(error))
        if is_local:
            self.send_local(event)
        else:
            self.emit(event)

    def stamp(self, event: ServerEvent) -> Sequence[bytes]:
        """The frames of *event* with an id of its own, without a sequence number."""
        return self.dialect.render(structs.replace(event, event_id=f"event_{self._ids.new_hex(32)}"))

    def _sequenced(self, event: ServerEvent) -> Sequence[bytes]:
        if self._journal.has_overflown or not self.dialect.rules.can_resume:
            return self.stamp(event)
        stamped = structs.replace(
            event, event_id=f"event_{self._ids.new_hex(32)}", server_event_seq=self._journal.head + 1
        )
        (frame,) = self.dialect.render(stamped)
        if self._journal.add(frame, self.now_s):
            return (frame,)
        self.send_local(events.SessionResyncRequired(session_id=self._session_id, reason="journal_overflow"))
        return self.dialect.render(structs.replace(stamped, server_event_seq=UNSET))


def error_body(error: RealtimeError) -> JsonObject:
    """The envelope's inside (specification section 7.2)."""
    body: JsonObject = {"type": error_type(error.code), "code": error.code, "message": str(error)}
    if error.event_id is not None:
        body["event_id"] = error.event_id
    if error.param is not None:
        body["param"] = error.param
    if body["type"] != "invalid_request_error":
        body["retryable"] = body["type"] == "rate_limit_error"
    return body
