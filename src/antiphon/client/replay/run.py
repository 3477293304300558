"""Plays the client's side of a trace to a server, and collects the server's side of it.

A frame of the client goes out when it is due and what had come before it in the recording has come again: an answer is
interrupted in the place where it was, even by a server that is slower.
"""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from antiphon.client.address import build_realtime_url
from antiphon.client.errors import DuplexConnectionError
from antiphon.client.replay.compare import Difference, SoundCheck, compare
from antiphon.client.replay.lanes import Lane, LaneBook
from antiphon.client.replay.matching import IdMap, is_piece
from antiphon.client.replay.trace_file import Trace
from antiphon.client.transport import MAX_FRAME_BYTES
from antiphon.wire.realtime.json_frame import JsonObject
from antiphon.wire.realtime.trace import REDACTED, TraceClosed, TraceFrame, TraceOpened

_CUT = 1006


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """`speed` 2 is twice as fast as recorded, 0 as fast as the server answers. `patience_s`: for what is missing."""

    url: str
    api_key: str | None = None
    speed: float = 1.0
    patience_s: float = 5.0
    sound: SoundCheck = SoundCheck.EXACT


@dataclass(frozen=True, kw_only=True)
class ReplayResult:
    differences: tuple[Difference, ...]
    num_sent: int
    num_recorded: int
    num_received: int


async def replay(trace: Trace, options: ReplayOptions) -> ReplayResult:
    """Run *trace* once.

    Raises:
        DuplexConnectionError: the server cannot be reached or refuses the upgrade.
    """
    return await _Replay(trace, options).run()


@dataclass
class _Replay:
    trace: Trace
    options: ReplayOptions
    recorded: LaneBook = field(default_factory=LaneBook)
    live: LaneBook = field(default_factory=LaneBook)
    ids: IdMap = field(default_factory=IdMap)
    num_sent: int = 0
    num_recorded: int = 0
    num_received: int = 0
    last_seq: int = 0
    due_s: float = 0.0  # when the present line is, on the clock of the loop
    resume_token: str | None = None
    has_news: asyncio.Event = field(default_factory=asyncio.Event)
    connection: ClientConnection | None = None
    reader: "asyncio.Task[None] | None" = None

    async def run(self) -> ReplayResult:
        clock = asyncio.get_running_loop().time
        begin_s = clock()
        try:
            for line in self.trace.lines:
                self.due_s = begin_s + line.at_s / self.options.speed if self.options.speed else clock()
                if isinstance(line, TraceFrame) and line.by == "server":
                    self._expect(line)
                    continue
                await self._catch_up()
                await asyncio.sleep(max(0.0, self.due_s - clock()))
                if isinstance(line, TraceOpened):
                    await self._open(line)
                elif isinstance(line, TraceFrame):
                    await self._send(line)
                elif isinstance(line, TraceClosed):
                    await self._close(line)
            await self._catch_up()
        finally:
            await self._leave()
        return ReplayResult(
            differences=tuple(compare(self.recorded, self.live, self.ids, self.options.sound)),
            num_sent=self.num_sent,
            num_recorded=self.num_recorded,
            num_received=self.num_received,
        )

    # --- the client's side

    async def _open(self, line: TraceOpened) -> None:
        query = {name: value for name, value in line.query.items() if value != REDACTED}
        base = build_realtime_url(self.options.url, None).split("?")[0].removesuffix("/v1/realtime")
        key = self.options.api_key
        try:
            self.connection = await connect(
                f"{base}{line.path}?{urlencode(query)}",
                additional_headers={} if key is None else {"Authorization": f"Bearer {key}"},
                subprotocols=None if line.subprotocol is None else [Subprotocol(line.subprotocol)],
                max_size=MAX_FRAME_BYTES,
                compression=None,
            )
        except InvalidStatus as error:
            status = error.response.status_code
            raise DuplexConnectionError(f"the server refuses the connection with HTTP {status}") from error
        except (OSError, InvalidHandshake) as error:
            raise DuplexConnectionError(f"no connection: {error}") from error
        self.reader = asyncio.create_task(self._read(self.connection))

    async def _send(self, line: TraceFrame) -> None:
        if self.connection is None:
            return
        frame = b"" if line.event is None and line.text is None else self._rendered(line)
        if frame is not None:
            with suppress(ConnectionClosed):
                await self.connection.send(frame)
                self.num_sent += 1

    def _rendered(self, line: TraceFrame) -> str | None:
        """The frame with live ids, sequence numbers and token in it; None: it need not be sent."""
        if line.event is None:
            return line.text
        event = self.ids.substitute(line.event)
        assert isinstance(event, dict)
        kind = event.get("type")
        if kind == "session.event_ack":
            if not self.last_seq:
                return None
            event["server_event_seq"] = self.last_seq
        elif kind == "session.resume":
            event["last_received_server_event_seq"] = self.last_seq
            if event.get("resume_token") == REDACTED:
                event["resume_token"] = self.resume_token
        return json.dumps(event, separators=(",", ":"), ensure_ascii=False)

    async def _close(self, line: TraceClosed) -> None:
        if self.connection is None or self.reader is None:
            return
        if line.by == "server":
            await asyncio.wait({self.reader}, timeout=self.options.patience_s)
        elif line.code == _CUT:
            self.connection.transport.abort()
        await self._leave()

    async def _leave(self) -> None:
        connection, reader = self.connection, self.reader
        self.connection = self.reader = None
        if connection is not None and reader is not None:
            await connection.close()
            await asyncio.gather(reader, return_exceptions=True)

    # --- the server's side

    def _expect(self, line: TraceFrame) -> None:
        if line.event is not None:
            self.num_recorded += 1
            self._learn(*self.recorded.add(line.event))

    async def _read(self, connection: ClientConnection) -> None:
        with suppress(ConnectionClosed):
            async for frame in connection:
                event = json.loads(frame)
                if isinstance(event, dict):
                    self._take(event)

    def _take(self, event: JsonObject) -> None:
        self.num_received += 1
        seq, token = event.get("server_event_seq"), event.get("resume_token")
        if isinstance(seq, int):
            self.last_seq = max(self.last_seq, seq)
        if isinstance(token, str):
            self.resume_token = token
        self._learn(*self.live.add(event))
        self.has_news.set()

    def _learn(self, lane: Lane, place: int) -> None:
        """Once both sides have an event in a place, their ids are the same ones."""
        old, new = self.recorded.lanes.get(lane, []), self.live.lanes.get(lane, [])
        if place < min(len(old), len(new)) and old[place].get("type") == new[place].get("type"):
            self.ids.learn(old[place], new[place])

    async def _catch_up(self) -> None:
        """Wait until all that was recorded so far has come, or for as long as patience lasts behind its time."""
        end_s = max(asyncio.get_running_loop().time(), self.due_s) + self.options.patience_s
        while not self._has_all() and self.reader is not None and not self.reader.done():
            left_s = end_s - asyncio.get_running_loop().time()
            self.has_news.clear()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.has_news.wait(), min(left_s, 0.05) if left_s > 0 else 0)
            if left_s <= 0:
                return

    def _has_all(self) -> bool:
        """By lane; of pieces, whose number is free, none is waited for but the first."""
        for lane, events in self.recorded.lanes.items():
            live = self.live.lanes.get(lane, [])
            wanted = sum(not is_piece(event) for event in events)
            if sum(not is_piece(event) for event in live) < wanted:
                return False
            if len(events) > wanted and not any(map(is_piece, live)):
                return False
        return True
