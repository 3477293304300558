"""One WebSocket from its upgrade to its close: handshake, then a reader and a pump side by side."""

import asyncio
from contextlib import suppress

from starlette.responses import JSONResponse
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from antiphon.realtime.dialects.map_realtime import MapDialect
from antiphon.realtime.opening import Opening, autostart, first_frame
from antiphon.realtime.outbox import Outbox
from antiphon.realtime.resume import ResumeRequest
from antiphon.serving.realtime.dialect_choice import choose_dialect
from antiphon.serving.realtime.gate import Gate, chosen_protocol
from antiphon.serving.realtime.hub import Hub
from antiphon.serving.realtime.live_session import LiveSession
from antiphon.serving.realtime.mailbox import Attachment, Detach, Frame
from antiphon.serving.realtime.map_handshake import MapHandshake
from antiphon.serving.realtime.recording import ConnectionTrace, SessionRecorder
from antiphon.serving.realtime.refusal import Refusal, refusal_of, resync_frame, single_error
from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.query import RealtimeQuery, parse_query

TRY_LATER = 1013
POLICY = 1008
NORMAL = 1000


class Socket:
    """A connection to the Realtime endpoints. *is_alias*: it came over `/v1/duplex`."""

    def __init__(
        self, websocket: WebSocket, hub: Hub, gate: Gate, *, is_alias: bool, recorder: SessionRecorder | None = None
    ) -> None:
        self._websocket = websocket
        self._hub = hub
        self._gate = gate
        self._is_alias = is_alias
        self._recorder = recorder
        self._trace: ConnectionTrace | None = None
        self._timeouts = hub.settings.timeouts
        self._query: RealtimeQuery = parse_query(websocket.query_params)
        protocol = chosen_protocol(list(websocket.scope.get("subprotocols", [])))
        self._dialect = choose_dialect(self._query, protocol, is_alias=is_alias)

    async def serve(self) -> None:
        if not await self._accept():
            return
        refusal = refusal_of(self._query, self._hub.settings, is_alias=self._is_alias)
        if refusal is not None:
            await self._refuse_route(refusal)
            return
        try:
            await self._hold_for_warmup()
            attachment = Attachment(Outbox(self._hub.settings.limits))
            live, then = await self._handshake(attachment)
        except RealtimeError as error:
            await self._end_with(error)
            return
        except WebSocketDisconnect:
            await self._close(NORMAL, "")
            return
        if self._trace is not None:
            self._trace.bind(live.session.id)
        if then is not None:
            await live.mailbox.put_frame(Frame(then, attachment.generation))
        try:
            await self._converse(live, attachment)
        finally:
            if self._trace is not None:
                self._trace.closed("client", NORMAL)
                await self._trace.finish()

    async def _accept(self) -> bool:
        websocket = self._websocket
        offered = list(websocket.scope.get("subprotocols", []))
        address = websocket.client.host if websocket.client is not None else ""
        denial = self._gate.check(websocket.headers, offered, address, asyncio.get_running_loop().time())
        if denial is None:
            protocol = chosen_protocol(offered)
            await websocket.accept(protocol)
            if self._recorder is not None:
                self._trace = self._recorder.connection(websocket.url.path, dict(websocket.query_params), protocol)
            return True
        body = {"error": {"type": "invalid_request_error", "code": denial.code, "message": denial.message}}
        await websocket.send_denial_response(JSONResponse(body, denial.status))
        return False

    async def _refuse_route(self, refusal: Refusal) -> None:
        """A client that sends at once would miss a refusal followed by a close, so its first frame is waited for."""
        with suppress(WebSocketDisconnect, asyncio.TimeoutError):
            await self._send(refusal.frame)
            await asyncio.wait_for(self._receive(), self._timeouts.refusal_wait_s)
        await self._close(refusal.close_code, "unsupported")

    async def _hold_for_warmup(self) -> None:
        if not self._query.is_warmup:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._hub.is_warm.wait(), self._timeouts.warmup_hold_s)

    async def _handshake(self, attachment: Attachment) -> tuple[LiveSession, str | None]:
        """The session, and the frame that came instead of a `session.update` and is its first event."""
        if self._dialect.name == MapDialect.name:
            return await self._map_handshake().run(attachment), None
        if self._query.is_autostart:
            return await self._open(autostart(), attachment, announces_update=self._dialect.rules.announces_open), None
        try:
            frame = await asyncio.wait_for(self._receive(), self._timeouts.first_message_s)
        except asyncio.TimeoutError:
            raise RealtimeError("config_timeout", "no session.update came in time") from None
        if frame is None:
            raise RealtimeError("invalid_json", "events are text frames")
        asked = first_frame(frame, self._dialect)
        if isinstance(asked, ResumeRequest):
            return await self._hub.resume(asked, attachment), None
        live = await self._open(asked, attachment, announces_update=self._dialect.rules.announces_update)
        return live, frame if asked.then is not None else None

    def _map_handshake(self) -> MapHandshake:
        return MapHandshake(self._hub, self._query, self._dialect, self._receive, self._send)

    async def _open(self, opening: Opening, attachment: Attachment, *, announces_update: bool) -> LiveSession:
        return await self._hub.open(
            opening, attachment, model=self._query.model, announces_update=announces_update, dialect=self._dialect
        )

    async def _converse(self, live: LiveSession, attachment: Attachment) -> None:
        reader = asyncio.create_task(self._read(live, attachment))
        pump = asyncio.create_task(self._pump(attachment))
        try:
            await asyncio.wait({reader, pump}, return_when=asyncio.FIRST_COMPLETED)
            if reader.done() and attachment.outbox.closing is not None:
                await asyncio.wait({pump}, timeout=self._timeouts.pump_drain_s)
        finally:
            # Up to Python 3.11 a cancellation is lost when it meets a send that `wait_for` has just seen done.
            attachment.is_over = True
            live.mailbox.put(Detach(attachment.generation))
            live.forget(attachment)
            for task in (reader, pump):
                task.cancel()
            await asyncio.gather(reader, pump, return_exceptions=True)

    async def _read(self, live: LiveSession, attachment: Attachment) -> None:
        with suppress(WebSocketDisconnect):
            while True:
                frame = await self._receive()
                await live.mailbox.put_frame(Frame(frame, attachment.generation))

    async def _pump(self, attachment: Attachment) -> None:
        """Send what waits; a socket that takes a frame for too long is as good as gone."""
        outbox = attachment.outbox
        try:
            while not attachment.is_over:
                while (frame := await attachment.get()) is not None:
                    await asyncio.wait_for(self._send(frame), self._timeouts.write_s)
                if outbox.closing is not None:
                    await self._close(outbox.closing.code, outbox.closing.reason)
                    return
                attachment.has_work.clear()
                if not attachment.is_over:
                    await attachment.has_work.wait()
        except (WebSocketDisconnect, asyncio.TimeoutError):
            return

    async def _end_with(self, error: RealtimeError) -> None:
        """The handshake failed: one error, then the end."""
        is_gap = error.code == "journal_gap"
        frame = resync_frame("") if is_gap else single_error(error)
        with suppress(WebSocketDisconnect):
            await self._send(frame)
        await self._close(TRY_LATER if error.code == "resource_exhausted" else POLICY, error.code)

    async def _receive(self) -> str | None:
        """The next frame's text; None for a binary one."""
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            code = message.get("code") or NORMAL
            if self._trace is not None:
                self._trace.closed("client", code)
            raise WebSocketDisconnect(code)
        text = message.get("text")
        found = text if isinstance(text, str) else None
        if self._trace is not None:
            self._trace.frame("client", found)
        return found

    async def _send(self, frame: bytes) -> None:
        text = frame.decode()
        if self._trace is not None:
            self._trace.frame("server", text)
        try:
            await self._websocket.send({"type": "websocket.send", "text": text})
        except (OSError, RuntimeError) as error:
            # Servers differ in what they raise for a socket that is closed already.
            raise WebSocketDisconnect(1006) from error

    async def _close(self, code: int, reason: str) -> None:
        if self._trace is not None:
            self._trace.closed("server", code)
        if self._websocket.application_state is WebSocketState.CONNECTED:
            with suppress(WebSocketDisconnect, RuntimeError, OSError):
                await self._websocket.close(code, reason[:120])
