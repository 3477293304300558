"""Listens to a session as a person would, on a virtual loudspeaker, and tells the server what was heard."""

import asyncio
from contextlib import suppress

from antiphon.client.errors import DuplexClientError
from antiphon.client.events import (
    AudioDelta,
    DuplexEvent,
    ResponseCreated,
    ResponseDone,
    SpeakDecision,
    TextDelta,
    TranscriptDelta,
)
from antiphon.client.loudspeaker import Loudspeaker
from antiphon.client.session import DuplexSession

ACK_INTERVAL_S = 0.25


class Listener:
    """Follows one session.

    Args:
        is_realtime: false: sound counts as heard when it comes.

    Attributes:
        num_begun, num_done: responses that began and that are over.
        num_spoken: of those that are over, how many said something.
        transcript: of everything said.
        playing_id: the response that was heard last.
    """

    def __init__(self, session: DuplexSession, *, is_realtime: bool) -> None:
        self.speaker = Loudspeaker()
        self.num_begun = 0
        self.num_done = 0
        self.num_spoken = 0
        self.transcript = ""
        self.playing_id: str | None = None
        self.heard_ms: dict[str, float] = {}
        self.changed = asyncio.Event()
        self._session = session
        self._is_realtime = is_realtime
        self._speaking: set[str] = set()
        self._acknowledged_ms: dict[str, float] = {}
        self._clock = asyncio.get_running_loop().time

    @property
    def is_speaking(self) -> bool:
        is_sounding = self._is_realtime and self.speaker.left_s(self._clock()) > 0
        return self.num_done < self.num_begun or is_sounding

    def heard_s(self) -> float:
        """Of the response that is playing."""
        if self.playing_id is None:
            return 0.0
        if not self._is_realtime:
            return self.heard_ms.get(self.playing_id, 0.0) / 1000
        return self.speaker.heard_s(self.playing_id, self._clock())

    async def follow(self) -> None:
        """Take in events until the session ends."""
        async for event in self._session.events():
            self.take(event)

    async def acknowledge(self) -> None:
        """Tell the server every quarter of a second what has been heard since."""
        with suppress(DuplexClientError):
            while True:
                await asyncio.sleep(ACK_INTERVAL_S)
                await self.acknowledge_once()

    async def acknowledge_once(self) -> None:
        now_s = self._clock()
        for response_id in list(self.heard_ms):
            if self._is_realtime:
                self.heard_ms[response_id] = self.speaker.heard_s(response_id, now_s) * 1000
            heard_ms = round(self.heard_ms[response_id], 1)
            if heard_ms > self._acknowledged_ms.get(response_id, 0.0):
                self._acknowledged_ms[response_id] = heard_ms
                await self._session.ack_playback(heard_ms, response_id=response_id)

    def take(self, event: DuplexEvent) -> None:
        if isinstance(event, ResponseCreated):
            self.num_begun += 1
        elif isinstance(event, SpeakDecision) and event.response_id is not None:
            self._speaking.add(event.response_id)
        elif isinstance(event, AudioDelta) and event.response_id is not None:
            self._hear(event.response_id, len(event.pcm) / 2 / (event.sample_rate_hz or 24_000))
        elif isinstance(event, TranscriptDelta | TextDelta):
            self.transcript += event.text or ""
        elif isinstance(event, ResponseDone):
            self.num_done += 1
            self.num_spoken += event.response_id in self._speaking
            if event.status == "cancelled":
                self.speaker.clear(self._clock())
        elif event.type == "output_audio_buffer.cleared":
            self.speaker.clear(self._clock())
        self.changed.set()

    def _hear(self, response_id: str, duration_s: float) -> None:
        self.playing_id = response_id
        self.speaker.put(response_id, duration_s, self._clock())
        before_ms = self.heard_ms.setdefault(response_id, 0.0)
        if not self._is_realtime:
            self.heard_ms[response_id] = before_ms + duration_s * 1000
