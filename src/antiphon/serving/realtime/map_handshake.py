"""How a connection of OpenBMB's `map.realtime` becomes a session: the queue, `session.init`, and what may go wrong.

The slot is the client's from `session.queue_done` on, so that a session can be opened when `session.init` comes.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress

from starlette.websockets import WebSocketDisconnect

from antiphon.realtime.dialects.dialect import Dialect
from antiphon.realtime.opening import Opening, first_frame
from antiphon.serving.realtime.hub import Hub
from antiphon.serving.realtime.live_session import LiveSession
from antiphon.serving.realtime.mailbox import Attachment
from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.json_frame import parse_object
from antiphon.wire.realtime.map_client import MapClose, map_frame
from antiphon.wire.realtime.map_server import (
    MapClosed,
    MapServerFrame,
    QueueDone,
    QueueUpdate,
    SessionQueued,
    render_map,
)
from antiphon.wire.realtime.query import RealtimeQuery

MODES = ("audio", "video")  # frames may ride an append in both


class MapHandshake:
    """One connection before its session. *receive* gives the next frame's text, None for a binary one; both raise
    WebSocketDisconnect."""

    def __init__(
        self,
        hub: Hub,
        query: RealtimeQuery,
        dialect: Dialect,
        receive: Callable[[], Awaitable[str | None]],
        send: Callable[[bytes], Awaitable[None]],
    ) -> None:
        self._hub = hub
        self._query = query
        self._dialect = dialect
        self._receive = receive
        self._send_bytes = send
        self._name = hub.new_session_id()
        self._early: str | None = None  # an opening that came before it was asked for

    async def run(self, attachment: Attachment) -> LiveSession:
        """Raises RealtimeError, told to the client and followed by a close, or WebSocketDisconnect."""
        if self._query.mode not in (None, *MODES):
            raise RealtimeError("invalid_session_config", f"mode must be one of {', '.join(MODES)}", param="mode")
        try:
            if not self._hub.try_reserve(self._name):
                await self._stand_in_line()
            await self._send(QueueDone(event_id=_event_id()))
            opening = await self._opening()
            return await self._hub.open(
                opening,
                attachment,
                model=self._query.model,
                announces_update=self._dialect.rules.announces_update,
                dialect=self._dialect,
                reserved=self._name,
            )
        except BaseException:
            self._hub.leave(self._name)
            raise

    async def _stand_in_line(self) -> None:
        """Until there is a slot, which then is taken. A client that leaves meanwhile gives up its place."""
        hub, loop = self._hub, asyncio.get_running_loop()
        bell = hub.line.join(self._name)
        reading = self._start_reading(bell)
        gives_up_s = loop.time() + hub.settings.limits.queue_wait_s
        next_word_s = loop.time() + hub.settings.timeouts.queue_update_s
        try:
            await self._tell(SessionQueued)
            while not hub.line.try_take(self._name, loop.time()):
                if hub.is_draining:
                    raise RealtimeError("resource_exhausted", "the server is shutting down")
                if loop.time() >= gives_up_s:
                    raise RealtimeError("resource_exhausted", "no session became free in time; try again later")
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(bell.wait(), max(min(gives_up_s, next_word_s) - loop.time(), 0))
                if reading.done():
                    self._keep_early(reading.result())
                    reading = self._start_reading(bell)
                if loop.time() >= next_word_s:
                    await self._tell(QueueUpdate)
                    next_word_s = loop.time() + hub.settings.timeouts.queue_update_s
        finally:
            reading.cancel()
            await asyncio.wait({reading})
        if not reading.cancelled():
            self._keep_early(reading.result())

    def _start_reading(self, bell: asyncio.Event) -> "asyncio.Task[str]":
        reading = asyncio.create_task(self._read())
        reading.add_done_callback(lambda _: bell.set())
        return reading

    def _keep_early(self, frame: str) -> None:
        if self._early is not None:
            raise RealtimeError("bad_event", "the session is not open yet; session.init is sent once")
        self._early = frame

    async def _opening(self) -> Opening:
        frame = self._early
        if frame is None:
            try:
                frame = await asyncio.wait_for(self._read(), self._hub.settings.timeouts.first_message_s)
            except asyncio.TimeoutError:
                raise RealtimeError("config_timeout", "no session.init came in time") from None
        opening = first_frame(frame, self._dialect)
        if not isinstance(opening, Opening) or opening.then is not None:
            raise RealtimeError("bad_event", "session.init has to be the first frame", param="type")
        return opening

    async def _read(self) -> str:
        """The next frame that is none of a client that leaves."""
        frame = await self._receive()
        if frame is None:
            raise RealtimeError("invalid_json", "events are text frames")
        body = parse_object(frame)
        if body.get("type") == "session.close":
            close = map_frame(body)
            reason = close.reason if isinstance(close, MapClose) else None
            await self._send(MapClosed(event_id=_event_id(), reason=reason or "client_close"))
            raise WebSocketDisconnect(1000, "left")
        return frame

    async def _tell(self, kind: type[SessionQueued]) -> None:
        place = self._hub.line.place(self._name)
        await self._send(
            kind(
                event_id=_event_id(),
                position=place.position,
                queue_length=place.queue_length,
                estimated_wait_s=round(place.expected_wait_s, 1),
            )
        )

    async def _send(self, frame: MapServerFrame) -> None:
        await self._send_bytes(render_map(frame))


def _event_id() -> str:
    return f"event_{uuid.uuid4().hex}"
