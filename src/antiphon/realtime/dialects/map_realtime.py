"""OpenBMB's `map.realtime` dialect, as its SDK speaks it (specification section 18)."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from msgspec import UNSET

from antiphon.realtime.dialects.dialect import Dialect, Rules
from antiphon.realtime.dialects.map_opening import session_of
from antiphon.realtime.dialects.map_usage import MapUsage
from antiphon.realtime.limits import INPUT_RATE_HZ
from antiphon.realtime.settings import OverlapPolicy, SessionSettings
from antiphon.wire.realtime import client_events as client
from antiphon.wire.realtime import server_events as events
from antiphon.wire.realtime.client_events import ClientEvent
from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.formats import SPEECH_RATE_HZ, AudioFormat, Encoding
from antiphon.wire.realtime.json_frame import JsonObject
from antiphon.wire.realtime.map_client import InputAppend, MapPayload, SessionInit, map_frame
from antiphon.wire.realtime.map_server import (
    MapClosed,
    MapCreated,
    MapError,
    MapServerFrame,
    OutputDelta,
    TurnEnd,
    render_map,
)
from antiphon.wire.realtime.server_events import ServerEvent

logger = logging.getLogger(__name__)

RULES = Rules(can_resume=False, announces_open=False, announces_update=False)
# Ends of a session that an error has brought about; only then its client is told one, because it gives up on any.
_FATAL = {"request_cleanup", "transport_error", "output_backpressure"}


class MapDialect:
    """Sound in and out is 32-bit float; the model alone decides about turns."""

    name = "map.realtime"
    rules = RULES

    def __init__(self) -> None:
        self._is_open = False
        self._response_id: str | None = None  # of the response that runs
        self._held: events.AudioDelta | None = None  # its text comes in the next event
        self._usage = MapUsage()
        self._last_error: JsonObject | None = None

    def defaults(self, settings: SessionSettings) -> SessionSettings:
        """Nobody commits, acknowledges playback or forces the model to listen."""
        return replace(
            settings,
            input_format=AudioFormat(Encoding.FLOAT32, INPUT_RATE_HZ),
            output_format=AudioFormat(Encoding.FLOAT32, SPEECH_RATE_HZ),
            auto_response=True,
            turn_detection=None,
            overlap_policy=OverlapPolicy.LISTEN_ONLY,
            force_listen_count=0,
            playback_commit_policy="commit_all_on_done",
        )

    def settle(self, _: JsonObject, settings: SessionSettings) -> tuple[Dialect, SessionSettings]:
        return self, settings

    # --- from the client

    def parse(self, body: JsonObject) -> Sequence[ClientEvent]:
        frame = map_frame(body)
        if isinstance(frame, SessionInit):
            if self._is_open:
                raise RealtimeError("bad_event", "session.init opens a session, and this one is open")
            return (client.SessionUpdate(session=session_of(frame.payload or MapPayload())),)
        if isinstance(frame, InputAppend):
            return self._append(frame)
        return (client.SessionClose(reason=frame.reason),)

    def _append(self, frame: InputAppend) -> Sequence[ClientEvent]:
        """A client that interrupts has its next append force the model to listen, and nothing else."""
        append = client.InputAudioAppend(
            audio=frame.input.audio, video_frames=frame.input.video_frames, force_listen=frame.input.force_listen
        )
        if not frame.input.force_listen or self._response_id is None:
            return (append,)
        return (client.ResponseCancel(response_id=self._response_id), append)

    # --- to the client

    def render(self, event: ServerEvent) -> Sequence[bytes]:
        return tuple(render_map(frame) for frame in self._frames(event))

    def _frames(self, event: ServerEvent) -> Sequence[MapServerFrame]:
        if isinstance(event, events.AudioDelta):
            self._held = event
        elif isinstance(event, events.TranscriptDelta):
            return self._pair(event)
        elif isinstance(event, events.TextDelta):
            return self._text(event.event_id, event.delta)
        elif isinstance(event, events.AudioDone):
            return (OutputDelta(event_id=event.event_id, kind="audio", audio="", end_of_turn=True),)
        elif isinstance(event, events.Listen):
            if event.response_id is UNSET:
                return (OutputDelta(event_id=event.event_id, kind="listen"),)
        elif isinstance(event, events.ResponseCreated):
            self._response_id = event.response_id
        elif isinstance(event, events.ResponseDone):
            return self._turn_end(event)
        else:
            return self._of_session(event)
        return ()

    def _of_session(self, event: ServerEvent) -> Sequence[MapServerFrame]:
        if isinstance(event, events.SessionCreated):
            self._is_open = True
            return (MapCreated(event_id=event.event_id, session_id=str(event.session["id"])),)
        if isinstance(event, events.SessionClosed | events.SessionExpired):
            closed = MapClosed(event_id=event.event_id, reason=event.reason)
            if event.reason not in _FATAL:
                return (closed,)
            error = self._last_error or {"code": event.reason, "message": "the server ended the session"}
            return (MapError(event_id=f"{event.event_id}_error", error=error), closed)
        if isinstance(event, events.Error):
            self._last_error = {"code": event.error["code"], "message": event.error["message"]}
            logger.info("refused without a word to the client, who would give up on any error: %s", event.error["code"])
        return ()

    def _pair(self, event: events.TranscriptDelta) -> Sequence[MapServerFrame]:
        """Text, then the speech that says it: clients of this dialect read one payload of each frame."""
        held, self._held = self._held, None
        sound: list[MapServerFrame] = []
        if held is not None and held.delta:
            sound.append(OutputDelta(event_id=held.event_id, kind="audio", audio=held.delta))
        return (*self._text(event.event_id, event.delta), *sound)

    def _text(self, event_id: str, text: str) -> Sequence[MapServerFrame]:
        return (OutputDelta(event_id=event_id, kind="text", text=text),) if text else ()

    def _turn_end(self, event: events.ResponseDone) -> Sequence[MapServerFrame]:
        self._response_id = self._held = None
        self._usage.add(cast(JsonObject, event.response["usage"]))
        return (TurnEnd(event_id=event.event_id, usage=self._usage.shown()),)
