"""One live session over a WebSocket: sound out when a microphone would have it, events in with their times."""

import asyncio
import json
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import aiohttp

from antiphon.bench.duplex_load.clips import Clip
from antiphon.bench.duplex_load.reader import EventReader
from antiphon.bench.duplex_load.settings import RATE_HZ, UNIT_S, DuplexSettings
from antiphon.bench.duplex_load.timeline import SessionRecord
from antiphon.bench.load import Clock
from antiphon.bench.settings import Target

_MAX_FRAME_BYTES = 64 << 20
_SLOT_RETRY_S = 1.0
_OPEN_TIMEOUT_S = 60.0
_CLOSE_TIMEOUT_S = 20.0
_ACK_EVERY = 16  # acknowledgements add up
_POLL_S = 0.02
_NO_PLACE = "resource_exhausted"


class _RefusedError(Exception):
    """The server opened no session; the code, and what it said."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


def session_object(clip: Clip, settings: DuplexSettings, model: str) -> dict[str, object]:
    """The `session` of a session: speech, the model's own decisions, and what clip and command line add."""
    extra: dict[str, object] = {"auto_response": True, "force_listen_count": 0}
    if settings.has_stage_metrics:
        extra["return_stage_metrics"] = True
    session: dict[str, object] = {
        "model": model,
        "modalities": ["audio", "text"],
        "sample_rate_hz": RATE_HZ,
        "input_audio_format": "pcm16",
        "output_audio_format": "pcm16",
        "overlap_policy": "listen_only",
        "turn_detection": None,
    }
    for more in (clip.session, settings.session):
        inner = more.get("extra_body")
        extra |= inner if isinstance(inner, dict) else {}
        session |= more
    return {**session, "extra_body": extra}


async def run_session(
    http: aiohttp.ClientSession, target: Target, clip: Clip, settings: DuplexSettings, model: str, clock: Clock
) -> SessionRecord:
    """Run one session to its end. A failure of any kind is a record with an error, never an exception."""
    num_waits, end_s = 0, clock() + settings.slot_wait_s
    while True:
        began_s = clock()
        try:
            record = await asyncio.wait_for(_run_once(http, target, clip, settings, model, clock), settings.timeout_s)
        except _RefusedError as error:
            if error.code == _NO_PLACE and clock() < end_s:
                num_waits += 1
                await asyncio.sleep(_SLOT_RETRY_S)
                continue
            record = SessionRecord(began_s=began_s, ended_s=clock(), error=str(error)[:400])
        except asyncio.TimeoutError:
            record = SessionRecord(began_s=began_s, ended_s=clock(), error="timed out")
        except (aiohttp.ClientError, OSError) as error:
            message = f"{type(error).__name__}: {error}"[:400]
            record = SessionRecord(began_s=began_s, ended_s=clock(), error=message)
        record.num_slot_waits = num_waits
        return record


async def _run_once(
    http: aiohttp.ClientSession, target: Target, clip: Clip, settings: DuplexSettings, model: str, clock: Clock
) -> SessionRecord:
    url = f"{target.base_url}{target.endpoint}".replace("http", "ws", 1)
    async with http.ws_connect(
        url, params={"duplex": "1", "autostart": "0"}, headers=target.headers, max_msg_size=_MAX_FRAME_BYTES
    ) as socket:
        session = session_object(clip, settings, model)
        await socket.send_str(json.dumps({"type": "session.update", "session": session}))
        session_id = await asyncio.wait_for(_opened(socket), _OPEN_TIMEOUT_S)
        record = SessionRecord(began_s=clock(), session_id=session_id)
        reader = EventReader(record, int(clip.duration_s // UNIT_S))
        reading = asyncio.create_task(_read(socket, reader, clock))
        try:
            await _speak(socket, clip, reader, settings, clock)
            await _settle(reader, clip, settings, clock)
            with suppress(ConnectionError):
                await socket.send_str('{"type":"session.close"}')
            await asyncio.wait({reading}, timeout=_CLOSE_TIMEOUT_S)
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        if not reader.is_closed and record.error is None:
            record.error = "the connection was lost"
        record.ended_s = clock()
        return record


async def _opened(socket: aiohttp.ClientWebSocketResponse[bool]) -> str:
    """Wait for the session; gives its id."""
    async for message in socket:
        if message.type is not aiohttp.WSMsgType.TEXT:
            continue
        event = json.loads(message.data)
        if event.get("type") == "session.created":
            return str(event["session"].get("id", ""))
        if event.get("type") == "error":
            error = event.get("error")
            body = error if isinstance(error, dict) else {"code": event.get("code"), "message": error}
            raise _RefusedError(str(body.get("code")), str(body.get("message")))
    raise aiohttp.ClientConnectionError("the server closed the connection before the session was open")


async def _speak(
    socket: aiohttp.ClientWebSocketResponse[bool],
    clip: Clip,
    reader: EventReader,
    settings: DuplexSettings,
    clock: Clock,
) -> None:
    step = 2 * RATE_HZ * settings.chunk_ms // 1000
    record = reader.record
    for begin in range(0, len(clip.pcm), step):
        piece = clip.pcm[begin : begin + step]
        due_s = record.began_s + (begin + len(piece)) / 2 / RATE_HZ
        if (wait_s := due_s - clock()) > 0:
            await asyncio.sleep(wait_s)
        if reader.is_closed or socket.closed or (clip.ends_with_answer and reader.num_answered):
            return
        record.worst_send_delay_s = max(record.worst_send_delay_s, clock() - due_s)
        event = {"type": "input_audio_buffer.append", "audio": b64encode(piece).decode("ascii")}
        with suppress(ConnectionError):
            await socket.send_str(json.dumps(event))


async def _settle(reader: EventReader, clip: Clip, settings: DuplexSettings, clock: Clock) -> None:
    """Wait for what the last seconds still bring; of a text, for its whole answer."""
    wait_s = settings.response_wait_s if clip.ends_with_answer else settings.settle_s
    end_s = clock() + wait_s
    while clock() < end_s and not reader.is_closed:
        if clip.ends_with_answer and reader.num_answered:
            return
        if not clip.ends_with_answer and reader.is_settled(clock()):
            return
        await asyncio.sleep(_POLL_S)
    if clip.ends_with_answer and not reader.is_closed:
        reader.record.error = reader.record.error or f"no answer within {wait_s:g} s"


async def _read(socket: aiohttp.ClientWebSocketResponse[bool], reader: EventReader, clock: Clock) -> None:
    num_unacknowledged = 0
    async for message in socket:
        at_s = clock()
        if message.type is not aiohttp.WSMsgType.TEXT:
            continue
        event: Mapping[str, Any] = json.loads(message.data)
        reader.take(event, at_s)
        seq = event.get("server_event_seq")
        num_unacknowledged += seq is not None
        with suppress(ConnectionError):
            if seq is not None and num_unacknowledged >= _ACK_EVERY:
                num_unacknowledged = 0
                await socket.send_str(json.dumps({"type": "session.event_ack", "server_event_seq": seq}))
            if event.get("type") == "response.done":
                await _acknowledge(socket, reader.record, event.get("response_id"))


async def _acknowledge(
    socket: aiohttp.ClientWebSocketResponse[bool], record: SessionRecord, response_id: object
) -> None:
    """All of an answer counts as heard when it is over: the benchmark has no loudspeaker."""
    for response in record.responses:
        if response.response_id == response_id and response.audio_duration_s:
            played_ms = response.audio_duration_s * 1000
            ack = {"type": "playback.ack", "response_id": response_id, "played_ms": played_ms}
            await socket.send_str(json.dumps(ack))
