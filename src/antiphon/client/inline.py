"""`InlineDuplexClient`: the same session without a socket, with a server in this process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Protocol

from antiphon.client.config import SessionConfig
from antiphon.client.errors import DuplexClientError, DuplexConnectionError, DuplexProtocolError
from antiphon.client.link import LinkEvents
from antiphon.client.session import DuplexSession
from antiphon.core.errors import AntiphonError
from antiphon.core.ids import RandomIds
from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.json_frame import JsonObject


class HostedSession(Protocol):
    """A session of a `DuplexHost`."""

    async def submit(self, event: JsonObject) -> None:
        """Take in a client event."""

    def events(self) -> AsyncIterator[JsonObject]:
        """The server's events, `session.created` first, to the last one."""

    async def close(self) -> None:
        """End the session; its last event comes out of `events`."""


class DuplexHost(Protocol):
    """A Realtime server to be called directly: `antiphon.serving.realtime.duplex_omni.DuplexOmni`."""

    async def open_session(self, payload: JsonObject) -> HostedSession:
        """Raises AntiphonError for settings that are refused."""


class InlineLink:
    """A `Link` to a session in this process: nothing is lost on the way, so there is nothing to resume."""

    def __init__(self, host: DuplexHost, handshake_timeout_s: float) -> None:
        self._host = host
        self._timeout_s = handshake_timeout_s
        self._ids = RandomIds()
        self._session: HostedSession | None = None
        self._created: asyncio.Future[JsonObject] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._is_closing = False

    async def open(self, session: JsonObject, events: LinkEvents) -> JsonObject:
        try:
            hosted = await asyncio.wait_for(self._host.open_session(session), self._timeout_s)
        except asyncio.TimeoutError:
            raise DuplexConnectionError(f"no session was opened within {self._timeout_s:g} s") from None
        except RealtimeError as error:
            raise DuplexProtocolError(str(error), code=error.code) from error
        except AntiphonError as error:
            raise DuplexConnectionError(str(error)) from error
        self._session = hosted
        self._created = asyncio.get_running_loop().create_future()
        self._reader = asyncio.create_task(self._read(hosted, self._created, events))
        return await self._created

    async def _read(self, session: HostedSession, created: "asyncio.Future[JsonObject]", events: LinkEvents) -> None:
        reason: str | None = "the session went away"
        try:
            async for event in session.events():
                events.deliver(event)
                if not created.done():
                    created.set_result(event)
                if event.get("type") in ("session.closed", "session.expired"):
                    reason = str(event.get("reason", ""))
        finally:
            if not created.done():
                created.set_exception(DuplexConnectionError(f"the session ended before it was open: {reason}"))
            events.ended(None if self._is_closing else reason)

    async def send(self, event: JsonObject) -> None:
        if self._session is None:
            raise DuplexClientError("the session is not open")
        await self._session.submit({"event_id": f"evt_{self._ids.new_hex(24)}", **event})

    async def close(self, timeout_s: float) -> None:
        if self._session is None or self._reader is None:
            return
        self._is_closing = True
        await self._session.close()
        await asyncio.wait({self._reader}, timeout=timeout_s)
        self._reader.cancel()
        with suppress(asyncio.CancelledError):
            await self._reader

    async def abandon(self) -> None:
        await self.close(1.0)


class InlineDuplexClient(DuplexSession):
    """A `DuplexSession` with *omni*, as `DuplexClient` has it with a server: same events, same error codes."""

    def __init__(
        self,
        omni: DuplexHost,
        *,
        model: str | None = None,
        config: SessionConfig | None = None,
        handshake_timeout_s: float = 30.0,
    ) -> None:
        super().__init__(InlineLink(omni, handshake_timeout_s), model=model, config=config)
