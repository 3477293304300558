"""A session over a socket: handshake, acknowledgement of events, heartbeat, and the way back after a loss.

No event is delivered twice: what the server replays after a resume is told apart by its sequence number. What the
client sends is not repeated by the server's rules: a frame that the broken connection took with it is lost.
"""

import asyncio
import json
import random
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass

from antiphon.client.config import ReconnectPolicy
from antiphon.client.errors import (
    DuplexClientError,
    DuplexConnectionError,
    DuplexProtocolError,
    DuplexSessionClosedError,
)
from antiphon.client.events import ErrorEvent
from antiphon.client.link import LinkEvents
from antiphon.client.transport import LOST, Connect, Transport
from antiphon.core.ids import RandomIds
from antiphon.wire.realtime.json_frame import JsonObject

# Answers to a resume after which another one cannot succeed.
FINAL_CODES = frozenset(
    {
        "invalid_session_resume",
        "session_resume_expired",
        "unsupported_session_resume",
        "invalid_resume_token",
        "session_resume_conflict",
    }
)
_RESYNC = "session.resync_required"
_TERMINAL = ("session.closed", "session.expired")


class _FinalError(Exception):
    """The session cannot be resumed any more; `str()` says why."""


@dataclass(frozen=True, kw_only=True)
class SocketOptions:
    """How a `SocketLink` behaves. `reconnect` None: a lost connection ends the session. Times are seconds."""

    reconnect: ReconnectPolicy | None
    heartbeat_interval_s: float | None
    handshake_timeout_s: float


class SocketLink:
    """See the module. `last_seq` and `resume_token` are what a resume would be asked with."""

    def __init__(self, url: str, connect: Connect, options: SocketOptions) -> None:
        self._url = url
        self._connect = connect
        self._options = options
        self._ids = RandomIds()
        self._random = random.Random()
        self._events: LinkEvents | None = None
        self._transport: Transport | None = None
        self._is_up = asyncio.Event()
        self._is_ack_due = asyncio.Event()
        self._is_over = asyncio.Event()
        self._is_closing = False
        self._tasks: list[asyncio.Task[None]] = []
        self._last_error: str | None = None
        self.session_id = ""
        self.resume_token: str | None = None
        self.last_seq = 0

    # --- open

    async def open(self, session: JsonObject, events: LinkEvents) -> JsonObject:
        transport = await self._connect(self._url)
        try:
            created = await asyncio.wait_for(self._introduce(transport, session), self._options.handshake_timeout_s)
        except asyncio.TimeoutError:
            await _close(transport)
            wait_s = self._options.handshake_timeout_s
            raise DuplexConnectionError(f"the server opened no session within {wait_s:g} s") from None
        except LOST as error:
            await _close(transport)
            raise DuplexConnectionError(f"the connection was lost before the session was open: {error}") from error
        except DuplexClientError:
            await _close(transport)
            raise
        self._events = events
        self._up(transport)
        self._deliver(created)
        works = [self._run(transport), self._acknowledge()]
        if self._options.heartbeat_interval_s is not None:
            works.append(self._beat(self._options.heartbeat_interval_s))
        self._tasks = [_started(work) for work in works]
        return created

    async def _introduce(self, transport: Transport, session: JsonObject) -> JsonObject:
        # A refusal may close the socket under the first frame; what it left to read says more than the loss.
        with suppress(*LOST):
            await transport.send(self._frame({"type": "session.update", "session": session}))
        while True:
            event = _parse(await transport.recv())
            if event.get("type") == "error":
                raise ErrorEvent(event).to_exception()
            if event.get("type") == "session.created":
                return event

    # --- in

    async def _run(self, transport: Transport) -> None:
        """Read until the session is over, through as many connections as it takes."""
        reason: str | None = "the connection was lost"
        try:
            while True:
                end = await self._read(transport)
                await _close(transport)
                if end is not None or self._is_closing:
                    reason = None if self._is_closing else end
                    return
                self._is_up.clear()
                transport, waiting = await self._resume()
                self._up(transport)
                for event in waiting:
                    self._deliver(event)
        except _FinalError as error:
            reason = None if self._is_closing else str(error)
        except asyncio.CancelledError:
            reason = None
            raise
        finally:
            self._end(reason)

    async def _read(self, transport: Transport) -> str | None:
        """Deliver what *transport* brings. Returns why the session is over, or None for a lost connection."""
        while True:
            try:
                event = _parse(await transport.recv())
            except LOST:
                return None
            except DuplexProtocolError as error:
                return str(error)
            self._deliver(event)
            kind = event.get("type")
            if kind in _TERMINAL:
                return self._last_error or str(event.get("reason", kind))
            if kind == "session.replaced":
                return "another client has taken the session over"

    def _deliver(self, event: JsonObject) -> None:
        assert self._events is not None
        seq = event.get("server_event_seq")
        if isinstance(seq, int):
            if seq <= self.last_seq:
                return
            self.last_seq = seq
            self._is_ack_due.set()
        kind = event.get("type")
        if kind in ("session.created", "session.resumed"):
            token = event.get("resume_token")
            self.resume_token = token if isinstance(token, str) else None
            session = event.get("session")
            found = event.get("session_id") or (session.get("id") if isinstance(session, dict) else None)
            self.session_id = str(found or self.session_id)
        elif kind == _RESYNC:
            self.resume_token = None
        elif kind == "error":
            self._last_error = ErrorEvent(event).message
        self._events.deliver(event)

    # --- the way back

    async def _resume(self) -> tuple[Transport, list[JsonObject]]:
        """Another connection for the session, and the events that it has brought already.

        Raises:
            _FinalError: there is no way back.
        """
        policy = self._options.reconnect
        if policy is None or self.resume_token is None:
            raise _FinalError("the connection was lost and the session cannot be resumed")
        why = "no attempt was made"
        for attempt in range(policy.max_attempts):
            await asyncio.sleep(policy.delay(attempt, self._random))
            transport: Transport | None = None
            try:
                transport = await self._connect(self._url)
                waiting = await asyncio.wait_for(self._reintroduce(transport), self._options.handshake_timeout_s)
            except _FinalError:
                await _close(transport)
                raise
            except (asyncio.TimeoutError, *LOST, DuplexProtocolError) as error:
                await _close(transport)
                why = str(error) or type(error).__name__
                continue
            return transport, [{"type": "connection.resumed", "attempt": attempt + 1}, *waiting]
        raise _FinalError(f"the connection was lost and not restored in {policy.max_attempts} attempts: {why}")

    async def _reintroduce(self, transport: Transport) -> list[JsonObject]:
        ask: JsonObject = {
            "type": "session.resume",
            "session_id": self.session_id,
            "resume_token": self.resume_token,
            "last_received_server_event_seq": self.last_seq,
        }
        await transport.send(self._frame(ask))
        early: list[JsonObject] = []
        while True:
            event = _parse(await transport.recv())
            if event.get("type") == "session.resumed":
                return [event, *early]
            if event.get("type") == _RESYNC:
                raise _FinalError("events were lost on the way: the session cannot be resumed")
            if event.get("type") == "error":
                error = ErrorEvent(event)
                if error.code in FINAL_CODES:
                    raise _FinalError(error.message)
                raise error.to_exception()
            early.append(event)

    def _up(self, transport: Transport) -> None:
        self._transport = transport
        self._is_up.set()

    # --- out

    async def send(self, event: JsonObject) -> None:
        frame = self._frame(event)
        while True:
            await self._wait_up()
            transport = self._transport
            assert transport is not None
            try:
                await transport.send(frame)
                return
            except LOST:
                # The reader sees the loss too and restores the connection; the frame goes over the next one.
                if self._transport is transport:
                    self._is_up.clear()
                await _close(transport)

    async def _wait_up(self) -> None:
        if not self._is_up.is_set() and not self._is_over.is_set():
            waits = [asyncio.ensure_future(event.wait()) for event in (self._is_up, self._is_over)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
        if self._is_over.is_set():
            raise DuplexSessionClosedError(self._last_error or "nothing can be sent any more")

    def _frame(self, event: JsonObject) -> str:
        return json.dumps({"event_id": f"evt_{self._ids.new_hex(24)}", **event}, separators=(",", ":"))

    async def _acknowledge(self) -> None:
        """The server may forget what has come. Acknowledgements add up, so the newest one speaks for all before it."""
        while True:
            await self._is_ack_due.wait()
            self._is_ack_due.clear()
            with suppress(DuplexClientError):
                await self.send({"type": "session.event_ack", "server_event_seq": self.last_seq})

    async def _beat(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
            with suppress(DuplexClientError):
                await self.send({"type": "session.heartbeat"})

    # --- end

    async def close(self, timeout_s: float) -> None:
        if self._is_closing or self._is_over.is_set():
            await self._stop()
            return
        self._is_closing = True
        with suppress(asyncio.TimeoutError, DuplexClientError):
            await asyncio.wait_for(self._say_goodbye(), timeout_s)
        await self._stop()

    async def _say_goodbye(self) -> None:
        await self.send({"type": "session.close"})
        await self._is_over.wait()

    async def abandon(self) -> None:
        self._is_closing = True
        if self._is_up.is_set() and self._transport is not None:
            with suppress(asyncio.TimeoutError, *LOST):
                await asyncio.wait_for(self._transport.send(self._frame({"type": "session.close"})), 1.0)
        await self._stop()

    async def _stop(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await _close(self._transport)
        self._end(None)

    def _end(self, reason: str | None) -> None:
        if not self._is_over.is_set():
            self._is_over.set()
            if self._events is not None:
                self._events.ended(reason)


def _started(work: Coroutine[object, object, None]) -> "asyncio.Task[None]":
    return asyncio.create_task(work)


async def _close(transport: Transport | None) -> None:
    if transport is not None:
        with suppress(*LOST):
            await transport.close()


def _parse(frame: str | bytes) -> JsonObject:
    try:
        event = json.loads(frame)
    except ValueError:
        raise DuplexProtocolError("the server sent a frame that is no JSON") from None
    if not isinstance(event, dict):
        raise DuplexProtocolError("the server sent a frame that is no event")
    return event
