"""Shows one stream to a server over its Realtime WebSocket, in vLLM-Omni's dialect, and notes what it says and when."""

import asyncio
import json
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

import aiohttp

from antiphon.bench.duplex_eval.media import RATE_HZ, UNIT_SAMPLES, Stream
from antiphon.bench.duplex_eval.playback import Playback
from antiphon.bench.duplex_eval.session_settings import SessionSettings, append_event, session_update, session_url
from antiphon.bench.duplex_eval.transcript import Event, Transcript, error_code, error_text
from antiphon.bench.load import Clock, Sleep
from antiphon.core.errors import AntiphonError

_MAX_FRAME_BYTES = 64 << 20
_SLOT_RETRY_S = 1.0
_POLL_S = 0.05
# A sender that falls behind by more has not kept the media's clock: the model saw things later than it seems.
MAX_LATENESS_S = 1.0


class SessionLostError(AntiphonError):
    """The server refused a session, or broke it off before everything was said."""

    code = "session_failed"


@dataclass(frozen=True, kw_only=True)
class SessionRecord:
    """One session. Times in the transcript are seconds since the stream's start."""

    transcript: Transcript
    session_id: str
    unit_ms: int
    is_response_done: bool
    has_drain_timeout: bool
    has_close_timeout: bool
    worst_lateness_s: float


async def run_session(
    http: aiohttp.ClientSession,
    stream: Stream,
    settings: SessionSettings,
    *,
    clock: Clock,
    sleep: Sleep = asyncio.sleep,
) -> SessionRecord:
    """Send *stream*, wait for the answers, close the session.

    Raises:
        SessionLostError: the server cannot be reached, refuses, or ends the session early.
    """
    end_s = clock() + settings.slot_wait_s
    while True:
        try:
            return await _run_once(http, stream, settings, clock, sleep)
        except _NoSlotError as refusal:
            if clock() >= end_s:
                raise SessionLostError(str(refusal)) from None
            await sleep(_SLOT_RETRY_S)
        except (aiohttp.ClientError, OSError) as error:
            raise SessionLostError(f"{settings.url}: {error or type(error).__name__}") from None


class _NoSlotError(Exception):
    """All sessions of the server are taken."""


async def _run_once(
    http: aiohttp.ClientSession, stream: Stream, settings: SessionSettings, clock: Clock, sleep: Sleep
) -> SessionRecord:
    url = session_url(settings.url, settings.model)
    timeout = aiohttp.ClientWSTimeout(ws_receive=None, ws_close=settings.close_s)
    async with http.ws_connect(url, headers=settings.headers, max_msg_size=_MAX_FRAME_BYTES, timeout=timeout) as socket:
        await socket.send_json(session_update(settings))
        created = await _await_created(socket, settings.handshake_s)
        return await _Session(socket, stream, settings, clock, sleep, created).run()


async def _await_created(socket: "aiohttp.ClientWebSocketResponse[Any]", timeout_s: float) -> Event:
    try:
        while True:
            event = await asyncio.wait_for(_next_event(socket), timeout_s)
            if event is None:
                raise SessionLostError("the server closed the connection before it opened a session")
            if event.get("type") == "session.created":
                return event
            if event.get("type") == "error":
                if error_code(event) == "resource_exhausted":
                    raise _NoSlotError(error_text(event))
                raise SessionLostError(f"the server opens no session: {error_text(event)}")
    except asyncio.TimeoutError:
        raise SessionLostError(f"the server opened no session within {timeout_s:g} s") from None


async def _next_event(socket: "aiohttp.ClientWebSocketResponse[Any]") -> Event | None:
    """The next event; None when the connection has ended."""
    while True:
        message = await socket.receive()
        if message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSING, aiohttp.WSMsgType.CLOSED):
            return None
        if message.type is aiohttp.WSMsgType.ERROR:
            raise SessionLostError(f"the connection broke: {socket.exception()}")
        if message.type is aiohttp.WSMsgType.TEXT:
            try:
                event = json.loads(message.data)
            except ValueError:
                raise SessionLostError("the server sent a frame that is not JSON") from None
            if isinstance(event, dict):
                return event


class _Session:
    """The running session: a reader, a writer, and a listener that acknowledges what it has heard."""

    def __init__(
        self,
        socket: "aiohttp.ClientWebSocketResponse[Any]",
        stream: Stream,
        settings: SessionSettings,
        clock: Clock,
        sleep: Sleep,
        created: Event,
    ) -> None:
        session = created.get("session")
        body: Event = session if isinstance(session, dict) else {}
        capabilities = body.get("capabilities")
        period = capabilities.get("chunk_period_ms") if isinstance(capabilities, dict) else None
        self._session_id = str(body.get("id", ""))
        self._unit_ms = period if isinstance(period, int) and not isinstance(period, bool) else 1000
        self._socket, self._stream, self._settings = socket, stream, settings
        self._clock, self._sleep = clock, sleep
        self._transcript = Transcript()
        self._playback = Playback(is_instant=not settings.is_realtime)
        self._start_s = 0.0
        self._worst_lateness_s = 0.0
        self._is_closed = asyncio.Event()
        self._ended_early = ""

    async def run(self) -> SessionRecord:
        self._start_s = self._clock()
        reader = asyncio.ensure_future(self._read())
        listener = asyncio.ensure_future(self._acknowledge())
        try:
            await self._until(self._send_stream(), reader)
            has_drained = await self._drain(reader)
            listener.cancel()
            await self._tell_playback()
            has_closed = await self._close(reader)
        finally:
            for task in (reader, listener):
                task.cancel()
            await asyncio.gather(reader, listener, return_exceptions=True)
        transcript = self._transcript
        return SessionRecord(
            transcript=transcript,
            session_id=self._session_id,
            unit_ms=self._unit_ms,
            is_response_done=bool(transcript.responses) and not transcript.is_speaking,
            has_drain_timeout=not has_drained,
            has_close_timeout=not has_closed,
            worst_lateness_s=self._worst_lateness_s,
        )

    @property
    def _now_s(self) -> float:
        return self._clock() - self._start_s

    async def _read(self) -> None:
        """Take events until the session is over."""
        while (event := await _next_event(self._socket)) is not None:
            if event.get("type") in ("session.closed", "session.expired", "session.replaced"):
                self._ended_early = str(event.get("reason") or event["type"])
                break
            if audio := self._transcript.receive(event, self._now_s):
                self._playback.receive(*audio, self._now_s)
        else:
            self._ended_early = "the connection was closed"
        self._is_closed.set()

    async def _until(self, work: Awaitable[None], reader: "asyncio.Future[None]") -> None:
        """Do *work*, unless the session ends first."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, reader}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                task.cancel()
        await asyncio.gather(task, return_exceptions=not task.done())
        self._check(reader)

    def _check(self, reader: "asyncio.Future[None]") -> None:
        if reader.done():
            reader.result()
            errors = self._transcript.errors
            reason = errors[-1] if errors else self._ended_early
            raise SessionLostError(f"the session ended before everything was said: {reason}")

    async def _send_stream(self) -> None:
        """The whole stream, each chunk when a microphone would have it, each frame with the end of its unit."""
        chunk = self._settings.chunk_ms * RATE_HZ // 1000
        pcm = self._stream.pcm
        for start in range(0, len(pcm), chunk):
            end = min(start + chunk, len(pcm))
            if self._settings.is_realtime:
                wait_s = end / RATE_HZ - self._now_s
                self._worst_lateness_s = max(self._worst_lateness_s, -wait_s)
                if wait_s > 0:
                    await self._sleep(wait_s)
            unit, ends_unit = (end - 1) // UNIT_SAMPLES, end % UNIT_SAMPLES == 0
            frame = self._stream.frames.get(unit) if ends_unit else None
            await self._send(append_event(pcm[start:end].tobytes(), frame, 1000 * end // RATE_HZ))
        await self._send({"type": "input_audio_buffer.commit", "final": True})

    async def _drain(self, reader: "asyncio.Future[None]") -> bool:
        """Wait until nothing more is said; false when that took too long."""
        begin_s = self._now_s
        end_s = begin_s + self._settings.drain_s(self._stream.duration_s)
        while self._now_s < end_s:
            await self._sleep(_POLL_S)
            self._check(reader)
            last_s = self._transcript.last_output_s
            quiet_s = self._now_s - max(begin_s, last_s or 0.0)
            # The last unit is answered by speech or by a decision to listen; a server may tell of neither.
            if not self._transcript.is_speaking and last_s is not None and quiet_s >= self._settings.settle_s:
                return True
        return False

    async def _close(self, reader: "asyncio.Future[None]") -> bool:
        """End the session; false if the server does not say that it has."""
        await self._send({"type": "session.close"})
        try:
            await asyncio.wait_for(self._is_closed.wait(), self._settings.close_s)
        except asyncio.TimeoutError:
            return False
        return not reader.cancelled()

    async def _acknowledge(self) -> None:
        while True:
            await self._sleep(self._settings.ack_interval_s)
            await self._tell_playback()

    async def _tell_playback(self) -> None:
        for response_id, played_ms in self._playback.news(self._now_s):
            await self._send(
                {
                    "type": "playback.ack",
                    "played_ms": played_ms,
                    "response_id": response_id,
                    "item_id": f"item_{response_id}",
                }
            )

    async def _send(self, event: Event) -> None:
        try:
            await self._socket.send_json(event)
        except (ConnectionError, RuntimeError) as error:  # aiohttp's words for a socket that is closing
            raise SessionLostError(f"the connection broke: {error}") from None
