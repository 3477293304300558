"""A client that hides nothing: raw frames out, every event kept with its order, waits with an end."""

import asyncio
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin, Subprotocol

Event = dict[str, Any]
MAX_FRAME_BYTES = 64 * 2**20


class MismatchError(Exception):
    """The server did something else than the specification says."""


class AbsentError(MismatchError):
    """The event *wanted* was waited for and did not come in time."""

    def __init__(self, wanted: str, text: str) -> None:
        super().__init__(text)
        self.wanted = wanted


def require(is_met: object, what: str) -> None:
    if not is_met:
        raise MismatchError(what)


def equal(found: object, expected: object, what: str) -> None:
    require(found == expected, f"{what}: {found!r} instead of {expected!r}"[:300])


class Peer:
    """One connection. `events` are all that came, in order."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self.can_close_session = True  # false: the dialect has no event for it, the socket's end is the session's
        self.events: list[Event] = []
        self._arrived = asyncio.Event()
        self._is_closed = False
        self._sent = 0
        self._read = 0  # events that a wait has consumed
        self._reader = asyncio.create_task(self._receive())

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        headers: dict[str, str] | None = None,
        subprotocols: list[str] | None = None,
        origin: str | None = None,
        **query: str,
    ) -> "Peer":
        connection = await connect(
            f"{url}?{urlencode(query)}" if query else url,
            additional_headers=headers,
            subprotocols=[Subprotocol(name) for name in subprotocols] if subprotocols else None,
            origin=None if origin is None else Origin(origin),
            max_size=MAX_FRAME_BYTES,
            compression=None,
        )
        return cls(connection)

    @property
    def close_code(self) -> int | None:
        return self._connection.close_code

    @property
    def subprotocol(self) -> str | None:
        return self._connection.subprotocol

    async def send(self, type_: str, **fields: object) -> str:
        """Send one event; gives its id."""
        self._sent += 1
        event_id = str(fields.pop("event_id", f"evt_{self._sent}"))
        await self.send_text(json.dumps({"type": type_, "event_id": event_id, **fields}))
        return event_id

    async def send_text(self, text: str) -> None:
        await self._connection.send(text)

    async def send_bytes(self, data: bytes) -> None:
        await self._connection.send(data)

    async def append(self, audio: str, **fields: object) -> None:
        await self.send("input_audio_buffer.append", audio=audio, **fields)

    async def commit(self, **fields: object) -> None:
        await self.send("input_audio_buffer.commit", **fields)

    async def until(self, wanted: str | Callable[[Event], bool], timeout_s: float = 5.0) -> list[Event]:
        """The events from the last wait's end up to the wanted one, it included. An unexpected `error` also ends it."""

        def is_wanted(event: Event) -> bool:
            return event["type"] == wanted if isinstance(wanted, str) else wanted(event)

        deadline = asyncio.get_running_loop().time() + timeout_s
        start = position = self._read
        while True:
            while position < len(self.events):
                event = self.events[position]
                position += 1
                if is_wanted(event):
                    self._read = position
                    return self.events[start:position]
                if event["type"] == "error" and wanted != "error":
                    raise MismatchError(f"waiting for {_name(wanted)}, got error {event['error']}")
            if self._is_closed:
                raise MismatchError(f"waiting for {_name(wanted)}, the socket closed with {self.close_code}")
            left = deadline - asyncio.get_running_loop().time()
            self._arrived.clear()
            try:
                await asyncio.wait_for(self._arrived.wait(), max(left, 0))
            except asyncio.TimeoutError:
                seen = [event["type"] for event in self.events[start:]]
                text = f"no {_name(wanted)} within {timeout_s:g} s; came: {seen}"
                raise AbsentError(_name(wanted), text[:400]) from None

    async def get(self, wanted: str | Callable[[Event], bool], timeout_s: float = 5.0) -> Event:
        return (await self.until(wanted, timeout_s))[-1]

    async def error(self, code: str, timeout_s: float = 5.0) -> Event:
        """The next error, which must have *code*."""
        event = await self.get("error", timeout_s)
        body = event["error"]
        found = body["code"] if isinstance(body, dict) else event.get("code")
        equal(found, code, "error code")
        return event

    async def pause(self, seconds: float) -> list[Event]:
        """Everything that comes within *seconds*."""
        start = self._read
        await asyncio.sleep(seconds)
        self._read = len(self.events)
        return self.events[start:]

    async def alive(self) -> None:
        """The session still answers."""
        await self.send("session.heartbeat")
        await self.get("session.heartbeat_ack")

    async def closed(self, timeout_s: float = 5.0) -> int | None:
        """Wait for the server to close; gives the code."""
        try:
            await asyncio.wait_for(asyncio.shield(self._reader), timeout_s)
        except asyncio.TimeoutError:
            raise MismatchError(f"the socket is still open after {timeout_s:g} s") from None
        return self.close_code

    async def drop(self) -> None:
        """Cut the connection without a closing handshake."""
        transport = self._connection.transport
        transport.abort()
        await asyncio.wait({self._reader}, timeout=5.0)

    async def finish(self) -> None:
        """End the session, if there is one, and the connection."""
        if not self._is_closed and self.can_close_session:
            try:
                await self.send("session.close")
                await asyncio.wait({self._reader}, timeout=5.0)
            except ConnectionClosed:
                pass
        await self._connection.close()
        self._reader.cancel()
        await asyncio.wait({self._reader})

    def stop_reading(self) -> None:
        """Leave what the server sends to the kernel's buffers."""
        self._reader.cancel()

    async def _receive(self) -> None:
        try:
            async for frame in self._connection:
                self.events.append(json.loads(frame))
                self._arrived.set()
        except ConnectionClosed:
            pass
        finally:
            self._is_closed = True
            self._arrived.set()


def _name(wanted: object) -> str:
    return wanted if isinstance(wanted, str) else "the event"
