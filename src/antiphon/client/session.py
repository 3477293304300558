"""A duplex session as its user sees it, whatever carries it: input, responses, events, and its end."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from types import TracebackType
from typing import TypeVar
from weakref import WeakSet

from antiphon.client.config import SessionConfig
from antiphon.client.errors import DuplexClientError, DuplexProtocolError, DuplexSessionClosedError
from antiphon.client.events import DuplexEvent, ErrorEvent, SessionCreated, SessionUpdated, wrap_event
from antiphon.client.feed import Feed, closed_error
from antiphon.client.link import Link, LinkEvents
from antiphon.client.pcm_stream import InputCursor, plan_chunks
from antiphon.client.response import ResponseHandle
from antiphon.client.response_book import ResponseBook
from antiphon.core.ids import RandomIds
from antiphon.wire.realtime.json_frame import JsonObject

Session = TypeVar("Session", bound="DuplexSession")


class DuplexSession:
    """One session, to be used in `async with`: it is open inside the block and closed behind it.

    `DuplexClient` and `InlineDuplexClient` inherit from it: they are this, and differ in the link they begin with.

    Attributes:
        session_id: the server's name of the session.
        session_info: its public description, as last told.
        model: as asked for; None leaves it to the server.
    """

    def __init__(self, link: Link, *, model: str | None, config: SessionConfig | None) -> None:
        self.model = model
        self.config = config or SessionConfig()
        self.session_id = ""
        self.session_info: JsonObject = {}
        self._link = link
        self._ids = RandomIds()
        self._input = InputCursor(self.config.input_audio)
        self._book = ResponseBook(self.config.output_audio)
        self._feeds: WeakSet[Feed[DuplexEvent]] = WeakSet()
        self._responses: Feed[ResponseHandle | DuplexProtocolError] = Feed()
        self._end: list[DuplexSessionClosedError | None] = []  # one entry once the session is over

    async def __aenter__(self: Session) -> Session:
        session = self.config.to_session_payload(model=self.model)
        await self._link.open(session, LinkEvents(self._deliver, self._ended))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
        else:
            await self._link.abandon()

    async def close(self, *, timeout_s: float = 20.0) -> None:
        """End the session and wait for the server's last event."""
        await self._link.close(timeout_s)

    @property
    def is_over(self) -> bool:
        return bool(self._end)

    # --- input

    async def append_audio(
        self, pcm: bytes, *, is_speech: bool | None = None, video_frames: Sequence[str] | None = None
    ) -> None:
        """Send a piece of sound in the session's input format.

        Args:
            is_speech: what the caller's own detector says.
            video_frames: JPEG or PNG in base64, with or without a data URL's head; at most a frame and a composite.
        """
        event = self._input.append(pcm)
        if is_speech is not None:
            event["is_speech"] = is_speech
        if video_frames is not None:
            event["video_frames"] = [frame.partition("base64,")[2] or frame for frame in video_frames]
        await self.send(event)

    async def stream_pcm(
        self,
        pcm: bytes,
        *,
        chunk_ms: int = 200,
        realtime: bool = True,
        is_speech: bool | None = None,
        video_frames: Sequence[str] | None = None,
        stacked_video_frames: Sequence[str | None] | None = None,
    ) -> int:
        """Send *pcm* in chunks, each when a microphone would have it, or all at once.

        Frame k is sent with the chunk that completes second k, the last one again where there are too few; a
        composite of the same second goes with it. Returns the number of frames sent, composites not counted.
        """
        clock = asyncio.get_running_loop().time
        begin_s, num_frames = clock(), 0
        for chunk in plan_chunks(
            pcm, self.config.input_audio, chunk_ms, video_frames or (), stacked_video_frames or ()
        ):
            if realtime:
                await asyncio.sleep(max(0.0, begin_s + chunk.due_s - clock()))
            await self.append_audio(chunk.pcm, is_speech=is_speech, video_frames=chunk.frames or None)
            num_frames += bool(chunk.frames)
        return num_frames

    async def commit(self, *, final: bool = True, create_response: bool | None = None) -> None:
        """The user's turn is over. *create_response* None: the server decides whether it is answered."""
        event: JsonObject = {"type": "input_audio_buffer.commit", "final": final}
        if create_response is not None:
            event["response_create"] = create_response
        await self.send(event)

    async def clear_input(self) -> None:
        """Forget what was appended and not yet given to the model."""
        await self.send({"type": "input_audio_buffer.clear"})

    async def create_response(self) -> None:
        """Ask for an answer to what was committed."""
        await self.send({"type": "response.create"})

    async def cancel_response(self, response_id: str | None = None) -> None:
        """Stop the running response, or that of the given id."""
        event: JsonObject = {"type": "response.cancel"}
        await self.send(event if response_id is None else {**event, "response_id": response_id})

    async def barge_in(self) -> None:
        """Stop whatever the user hears, also one that is over and still played, and forget the input so far."""
        await self.send({"type": "barge_in"})

    async def ack_playback(
        self,
        played_ms: float,
        *,
        response_id: str | None = None,
        item_id: str | None = None,
        committed_ms: float | None = None,
    ) -> None:
        """Tell what the user has heard of a response: only that much of it counts as said."""
        committed = played_ms if committed_ms is None else committed_ms
        event: JsonObject = {"type": "playback.ack", "played_ms": played_ms, "committed_ms": committed}
        names = {"response_id": response_id, "item_id": item_id}
        await self.send({**event, **{name: value for name, value in names.items() if value is not None}})

    async def send(self, event: JsonObject) -> str:
        """Send any event; returns the id that an `error` about it carries."""
        event_id = str(event.get("event_id") or f"evt_{self._ids.new_hex(24)}")
        if self._end:
            raise self._end[0] or DuplexClientError("the session is closed")
        await self._link.send({**event, "event_id": event_id})
        return event_id

    # --- output

    def events(self) -> Feed[DuplexEvent]:
        """Every event from now on. The end of the session raises DuplexSessionClosedError unless it was asked for."""
        feed: Feed[DuplexEvent] = Feed()
        self._feeds.add(feed)
        if self._end:
            feed.end(self._end[0])
        return feed

    def __aiter__(self) -> Feed[DuplexEvent]:
        return self.events()

    async def responses(self) -> AsyncIterator[ResponseHandle]:
        """Responses as they begin, and moments of listening; for one reader.

        Raises:
            DuplexProtocolError: the server reports an error.
            DuplexSessionClosedError: as `events`.
        """
        async for item in self._responses:
            if isinstance(item, DuplexProtocolError):
                raise item
            yield item

    def wait_for(self, *types: str, timeout_s: float) -> Coroutine[object, object, DuplexEvent]:
        """The next event of one of *types* from now on, not from when it is awaited.

        Raises:
            asyncio.TimeoutError: none came.
            DuplexProtocolError: an error came first.
            DuplexSessionClosedError: the session ended first.
        """
        return asyncio.wait_for(_first(self.events(), types), timeout_s)

    # --- for the link

    def _deliver(self, raw: JsonObject) -> None:
        event = wrap_event(raw)
        if isinstance(event, SessionCreated | SessionUpdated):
            self.session_info = event.session or self.session_info
            self.session_id = event.session_id or self.session_id
        for feed in list(self._feeds):
            feed.put(event)
        if isinstance(event, ErrorEvent):
            self._responses.put(event.to_exception())
        elif (handle := self._book.take(event)) is not None:
            self._responses.put(handle)

    def _ended(self, reason: str | None) -> None:
        error = closed_error(reason)
        self._end.append(error)
        self._book.end(error or DuplexSessionClosedError("it was closed here"))
        for feed in list(self._feeds):
            feed.end(error)
        self._responses.end(error)


async def _first(feed: Feed[DuplexEvent], types: Sequence[str]) -> DuplexEvent:
    async for event in feed:
        if event.type in types:
            return event
        if isinstance(event, ErrorEvent):
            raise event.to_exception()
    raise DuplexSessionClosedError("it was closed here")
