"""Realtime sessions in this process, without a socket: the host behind `InlineDuplexClient`."""

from collections.abc import AsyncIterator

import msgspec

from antiphon.core.errors import StateError
from antiphon.realtime.engine import DuplexEngine
from antiphon.realtime.opening import Opening
from antiphon.realtime.outbox import Outbox
from antiphon.serving.realtime.live_session import LiveSession
from antiphon.serving.realtime.mailbox import Attachment, Detach, Frame
from antiphon.serving.realtime.routes import realtime_hub
from antiphon.serving.realtime.settings import RealtimeSettings
from antiphon.wire.realtime.json_frame import JsonObject


class InlineSession:
    """One open session. What is not taken out of `events` in time ends it, as a socket that is not read would."""

    def __init__(self, live: LiveSession, attachment: Attachment) -> None:
        self._live = live
        self._attachment = attachment

    @property
    def id(self) -> str:
        return self._live.session.id

    @property
    def closed(self) -> bool:
        return self._live.session.is_over

    @property
    def lease_generation(self) -> int:
        return self._live.session.generation

    @property
    def public_session(self) -> JsonObject:
        """The session object as clients see it."""
        return self._live.session.state.shown()

    @property
    def capabilities(self) -> JsonObject:
        found = self.public_session.get("capabilities")
        return found if isinstance(found, dict) else {}

    async def submit(self, event: JsonObject) -> None:
        """Take in a client event; waits while too much is queued. Raises StateError once the session is over."""
        if self.closed:
            raise StateError(f"session {self.id} has ended")
        text = msgspec.json.encode(event).decode()
        await self._live.mailbox.put_frame(Frame(text, self._attachment.generation))

    async def events(self) -> AsyncIterator[JsonObject]:
        """The server's events, `session.created` first, to the last one. For one reader."""
        attachment = self._attachment
        while True:
            while (frame := await attachment.get()) is not None:
                yield msgspec.json.decode(frame, type=JsonObject)
            if attachment.outbox.closing is not None:
                return
            attachment.has_work.clear()
            await attachment.has_work.wait()

    async def close(self) -> None:
        """End the session; `events` brings its last event."""
        if not self.closed:
            await self.submit({"type": "session.close"})

    def detach(self) -> None:
        """Let go without closing: the session waits for its grace time, and goes."""
        self._live.mailbox.put(Detach(self._attachment.generation))
        self._live.forget(self._attachment)


class DuplexOmni:
    """Sessions on *engine*. Make it on the event loop that it is used on, and close it there."""

    def __init__(self, engine: DuplexEngine, settings: RealtimeSettings) -> None:
        self._hub = realtime_hub(engine, settings)
        self._sessions: dict[str, InlineSession] = {}

    async def open_session(self, payload: JsonObject) -> InlineSession:
        """Open a session with the `session` object *payload*.

        Raises:
            RealtimeError: settings that are refused, or no free session.
        """
        attachment = Attachment(Outbox(self._hub.settings.limits))
        live = await self._hub.open(Opening(payload), attachment, model=None)
        session = InlineSession(live, attachment)
        self._sessions = {key: kept for key, kept in self._sessions.items() if not kept.closed}
        self._sessions[session.id] = session
        return session

    def get_session(self, session_id: str) -> InlineSession | None:
        """None: there is none of that id, or it is over."""
        session = self._sessions.get(session_id)
        return None if session is None or session.closed else session

    def detach_session(self, session_id: str) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.detach()

    async def close(self) -> None:
        """End every session."""
        await self._hub.drain(0.0)
