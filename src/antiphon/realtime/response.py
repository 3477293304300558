"""One response on its way to the client: which events, in which order, each once (specification section 7.4)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.realtime.conversation import Role, item_object
from antiphon.realtime.playback import Playback
from antiphon.realtime.settings import SessionSettings
from antiphon.realtime.speech_output import SpeechEncoder
from antiphon.realtime.usage import Usage
from antiphon.wire.realtime import server_events as events
from antiphon.wire.realtime.errors import error_type
from antiphon.wire.realtime.json_frame import JsonObject
from antiphon.wire.realtime.server_events import ServerEvent


@dataclass(frozen=True)
class Ending:
    """How a response ends: `completed`, `incomplete`, `cancelled` or `failed`, why, and the error behind a failure."""

    status: str
    reason: str
    code: str | None = None
    message: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether all that was made also counts: a response that ran into its limit is short, not cut off."""
        return self.status in ("completed", "incomplete")

    def details(self) -> JsonObject:
        details: JsonObject = {"type": self.status, "reason": self.reason}
        if self.code is not None:
            details["error"] = {"type": error_type(self.code), "code": self.code, "message": self.message}
        return details


COMPLETED = Ending("completed", "stop")


class Response:
    """Emits the events of one response. `settings` are those it began with; an update does not reach it."""

    def __init__(
        self,
        emit: Callable[[ServerEvent], None],
        *,
        session_id: str,
        epoch: int,
        turn_id: int,
        settings: SessionSettings,
        playback: Playback,
        previous_item_id: str | None,
        client_metadata: JsonObject | None = None,
        was_asked_for: bool = False,
    ) -> None:
        self._emit = emit
        self._session_id = session_id
        self.epoch = epoch
        self.turn_id = turn_id
        self.settings = settings
        self.playback = playback
        self.previous_item_id = previous_item_id
        self.client_metadata = dict(client_metadata or {})
        self.was_asked_for = was_asked_for
        self.usage = Usage()
        self.input_unit: int | None = None  # whose output is being sent
        self.num_silence_units = 0  # that kept it running
        self.num_quiet_units = 0  # of them, in a row, without output
        self.has_spoken = False
        self._encoder = SpeechEncoder(settings.output_format)
        self._has_audio = False
        self._has_text_part = False
        self._is_over = False

    @property
    def id(self) -> str:
        return self.playback.response_id

    @property
    def item_id(self) -> str:
        return self.playback.item_id

    @property
    def speaks(self) -> bool:
        return self.settings.speaks

    def open(self) -> None:
        origin: JsonObject = {
            "type": "response.created",
            "session_id": self._session_id,
            "epoch": self.epoch,
            "turn_id": self.turn_id,
            "response_id": self.id,
        }
        shown = self._shown("in_progress", None, [])
        shown["metadata"] = {**self.client_metadata, "duplex_event": origin}
        self._emit(events.ResponseCreated(response_id=self.id, response=shown))
        item = item_object(self.item_id, Role.ASSISTANT, "in_progress", [])
        self._emit(events.ItemAdded(previous_item_id=self.previous_item_id, item=item))
        self._emit(events.ItemCreated(previous_item_id=self.previous_item_id, item=item))
        self._emit(events.OutputItemAdded(response_id=self.id, item=item))
        if self.speaks:
            part: JsonObject = {"type": "audio", "transcript": ""}
            self._emit(events.ContentPartAdded(response_id=self.id, item_id=self.item_id, part=part))

    def speak(self) -> None:
        """The model decided to speak; told once."""
        if not self.has_spoken:
            self.has_spoken = True
            self._emit(events.Speak(response_id=self.id, item_id=self.item_id, metadata=self._metadata()))

    def say(self, samples: NDArray[np.float32], text: str, now_s: float) -> None:
        """Send a piece of speech [N] and its text, always as a pair; of a text-only response the text alone."""
        self.num_quiet_units = 0
        self.speak()
        if not self.speaks:
            self._say_text(text, now_s)
            return
        self.playback.add(len(samples), text, now_s)
        self._send_audio(self._encoder.encode(samples))
        self._emit(events.TranscriptDelta(response_id=self.id, item_id=self.item_id, delta=text))

    def say_text_of_speech(self, text: str, now_s: float) -> None:
        """Transcript whose speech lies in what was sent already; still a pair, with an empty delta."""
        self.playback.add(0, text, now_s)
        self._send_audio("")
        self._emit(events.TranscriptDelta(response_id=self.id, item_id=self.item_id, delta=text))

    def finish(self, ending: Ending) -> None:
        """The whole terminal set. Nothing is emitted for this response afterwards."""
        if self._is_over:
            return
        if self.speaks and ending.is_whole and self._has_audio:
            self._send_tail()
        self._is_over = True
        text = self.playback.shown_text()
        if self.speaks:
            if self._has_audio or text:
                self._emit(events.AudioDone(response_id=self.id, item_id=self.item_id))
            if text:
                self._emit(events.TranscriptDone(response_id=self.id, item_id=self.item_id, transcript=text))
            self._emit(
                events.ContentPartDone(
                    response_id=self.id, item_id=self.item_id, part={"type": "audio", "transcript": text}
                )
            )
        if self._has_text_part:
            self._emit(events.TextDone(response_id=self.id, item_id=self.item_id, text=text))
            self._emit(
                events.ContentPartDone(response_id=self.id, item_id=self.item_id, part={"type": "text", "text": text})
            )
        item = self.final_item(ending.status)
        self._emit(events.OutputItemDone(response_id=self.id, item=item))
        self._emit(events.ItemDone(previous_item_id=self.previous_item_id, item=item))
        shown = self._shown(ending.status, ending.details(), [item])
        shown["metadata"] = {**self.client_metadata, **self._usage_metadata()}
        shown["usage"] = self.usage.shown()
        self._emit(events.ResponseDone(response_id=self.id, response=shown))
        self._emit(events.RateLimitsUpdated())

    def final_item(self, status: str) -> JsonObject:
        text = self.playback.shown_text()
        content: list[object] = []
        if self.speaks:
            part: JsonObject = {
                "type": "output_audio",
                "transcript": text,
                "audio_duration_ms": self.playback.sent_ms,
                "audio_text_marks": self.playback.shown_marks(),
            }
            content.append(part)
        elif self._has_text_part:
            content.append({"type": "output_text", "text": text})
        return item_object(self.item_id, Role.ASSISTANT, status, content)

    def _say_text(self, text: str, now_s: float) -> None:
        if not text:
            return
        if not self._has_text_part:
            self._has_text_part = True
            self._emit(
                events.ContentPartAdded(response_id=self.id, item_id=self.item_id, part={"type": "text", "text": ""})
            )
        self.playback.add(0, text, now_s)
        self._emit(events.TextDelta(response_id=self.id, item_id=self.item_id, delta=text))

    def _send_audio(self, delta: str) -> None:
        self._has_audio = True
        form = self.settings.output_format
        self._emit(
            events.AudioDelta(
                response_id=self.id,
                item_id=self.item_id,
                delta=delta,
                format=form.encoding.value,
                sample_rate_hz=form.output_rate_hz,
                metadata={
                    **self._metadata(),
                    "end_of_turn": False,
                    "playback": self.playback.cursors(),
                    "audio_duration_ms": self.playback.sent_ms,
                    "audio_text_marks": self.playback.shown_marks(),
                },
            )
        )

    def _send_tail(self) -> None:
        """What a resampler withheld; it keeps the pair, with an empty transcript."""
        tail = self._encoder.encode(np.zeros(0, np.float32), last=True)
        if tail:
            self._send_audio(tail)
            self._emit(events.TranscriptDelta(response_id=self.id, item_id=self.item_id, delta=""))

    def _shown(self, status: str, details: JsonObject | None, output: list[object]) -> JsonObject:
        return {
            "id": self.id,
            "object": "realtime.response",
            "status": status,
            "status_details": details,
            "output": output,
            "modalities": list(self.settings.modalities),
            "metadata": {},
        }

    def _metadata(self) -> JsonObject:
        metadata: JsonObject = {"session_id": self._session_id, "epoch": self.epoch, "model_speak": True}
        if self.input_unit is not None:
            metadata["input_unit"] = self.input_unit
        return {**metadata, **self._usage_metadata()}

    def _usage_metadata(self) -> JsonObject:
        inner: JsonObject = {
            "runtime_impl": "antiphon",
            "owned_runtime": True,
            "model_turn_id": self.turn_id,
            "uses_model_runner_scheduler": True,
            "runner_kv_backed": True,
        }
        if self.settings.return_stage_metrics:
            inner["stage_metrics"] = self.usage.stage_metrics(self.playback.num_samples)
        return {"vllm_omni": inner}
