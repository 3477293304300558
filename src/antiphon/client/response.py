"""One answer of the model as it comes: its decision, its words, its sound, its end."""

import asyncio
from collections.abc import AsyncIterator

from antiphon.client.config import AudioFormat
from antiphon.client.events import DuplexEvent, ResponseCreated
from antiphon.client.feed import MAX_WAITING, Feed

SPEAK, LISTEN = "speak", "listen"


class ResponseHandle:
    """Filled by the client that gave it out; read by its user.

    Attributes:
        response_id: None for a moment at which the model only listened.
        decision: "speak", "listen", or None while it is not known.
        transcript: of the speech so far.
        text: of an answer without sound so far; for a spoken one, its transcript.
        played_ms: sound that `audio()` has handed out: take a chunk when the loudspeaker is ready for it.
        done_event: the event that ended it; None while it runs.
    """

    def __init__(
        self,
        *,
        response_id: str | None,
        output_format: AudioFormat,
        max_buffered_events: int = MAX_WAITING,
        decision: str | None = None,
        created_event: ResponseCreated | None = None,
    ) -> None:
        self.response_id = response_id
        self.decision = decision
        self.created_event = created_event
        self.done_event: DuplexEvent | None = None
        self.transcript = ""
        self.played_ms = 0.0
        self._written = ""
        self._format = output_format
        self._chunks: Feed[bytes] = Feed(max_buffered_events)
        self._is_finished = asyncio.Event()
        self._error: Exception | None = None

    @property
    def text(self) -> str:
        return self._written or self.transcript

    @property
    def finished(self) -> bool:
        return self._is_finished.is_set()

    @property
    def num_dropped_chunks(self) -> int:
        """Chunks of sound that nobody took in time."""
        return self._chunks.num_dropped

    async def wait(self, timeout_s: float | None = None) -> None:
        """Until the response is over.

        Raises:
            asyncio.TimeoutError: it is not, after *timeout_s*.
            DuplexSessionClosedError: the session ended first.
        """
        await asyncio.wait_for(self._is_finished.wait(), timeout_s)
        if self._error is not None:
            raise self._error

    async def audio(self) -> AsyncIterator[bytes]:
        """The sound, a chunk at a time in the session's output format, until the response is over. For one reader."""
        async for chunk in self._chunks:
            self.played_ms += self._format.duration_ms(len(chunk))
            yield chunk

    # --- for the client

    def take_audio(self, chunk: bytes) -> None:
        self.decision = self.decision or SPEAK
        self._chunks.put(chunk)

    def take_transcript(self, text: str) -> None:
        self.transcript += text

    def take_text(self, text: str) -> None:
        self.decision = self.decision or SPEAK
        self._written += text

    def finish(self, event: DuplexEvent, decision: str) -> None:
        self.done_event = event
        self.decision = self.decision or decision
        self._is_finished.set()
        self._chunks.end()

    def abandon(self, error: Exception | None) -> None:
        """The session ended before the response did."""
        self._error = error
        self._is_finished.set()
        self._chunks.end(error)
