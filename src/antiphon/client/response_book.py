"""Sorts events into responses: which handle each belongs to, when it is shown to the user, when it is over."""

from collections import OrderedDict

from antiphon.client.config import AudioFormat
from antiphon.client.events import (
    AudioDelta,
    DuplexEvent,
    ListenDecision,
    ResponseCreated,
    ResponseDone,
    SpeakDecision,
    TextDelta,
    TranscriptDelta,
)
from antiphon.client.response import LISTEN, SPEAK, ResponseHandle

_MAX_REMEMBERED = 1024  # ids of finished responses: what still comes for one is ignored


class ResponseBook:
    """The responses of one session. A handle is announced once: at its first output, or at its end."""

    def __init__(self, output_format: AudioFormat) -> None:
        self._format = output_format
        self._open: dict[str, ResponseHandle] = {}
        self._is_announced: dict[str, bool] = {}
        self._over: OrderedDict[str, None] = OrderedDict()

    def take(self, event: DuplexEvent) -> ResponseHandle | None:
        """Take in *event*; a handle that is to be announced now, else None."""
        response_id = event.response_id
        if isinstance(event, ListenDecision):
            return self._listen(event, response_id)
        if response_id is None or response_id in self._over:
            return None
        if isinstance(event, ResponseCreated):
            self._handle(response_id, event)
            return None
        if isinstance(event, ResponseDone):
            return self._finish(event, response_id, SPEAK)
        if isinstance(event, SpeakDecision | AudioDelta | TranscriptDelta | TextDelta):
            return self._output(event, self._handle(response_id, None))
        return None

    def end(self, error: Exception | None) -> None:
        """The session is over, and with it what runs."""
        for handle in self._open.values():
            handle.abandon(error)
        self._open.clear()

    def _listen(self, event: ListenDecision, response_id: str | None) -> ResponseHandle | None:
        if response_id is not None:
            return None if response_id in self._over else self._finish(event, response_id, LISTEN)
        beat = ResponseHandle(response_id=None, output_format=self._format, decision=LISTEN)
        beat.finish(event, LISTEN)
        return beat

    def _output(self, event: DuplexEvent, handle: ResponseHandle) -> ResponseHandle | None:
        if isinstance(event, SpeakDecision):
            handle.decision = SPEAK
        elif isinstance(event, AudioDelta):
            handle.take_audio(event.pcm)
        elif isinstance(event, TranscriptDelta):
            handle.take_transcript(event.text or "")
        else:
            handle.take_text(event.text or "")
        return self._announce(handle)

    def _finish(self, event: DuplexEvent, response_id: str, decision: str) -> ResponseHandle | None:
        handle = self._handle(response_id, None)
        handle.finish(event, decision)
        shown = self._announce(handle)
        del self._open[response_id], self._is_announced[response_id]
        self._over[response_id] = None
        if len(self._over) > _MAX_REMEMBERED:
            self._over.popitem(last=False)
        return shown

    def _handle(self, response_id: str, created: ResponseCreated | None) -> ResponseHandle:
        handle = self._open.get(response_id)
        if handle is None:
            handle = ResponseHandle(response_id=response_id, output_format=self._format, created_event=created)
            self._open[response_id] = handle
            self._is_announced[response_id] = False
        return handle

    def _announce(self, handle: ResponseHandle) -> ResponseHandle | None:
        assert handle.response_id is not None
        if self._is_announced[handle.response_id]:
            return None
        self._is_announced[handle.response_id] = True
        return handle
