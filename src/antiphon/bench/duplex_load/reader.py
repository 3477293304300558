"""Turns the events of one session into its record, each as it comes."""

from collections.abc import Mapping
from typing import Any

from antiphon.bench.duplex_load.settings import UNIT_S
from antiphon.bench.duplex_load.timeline import ResponseTimes, SessionRecord, UnitTimes
from antiphon.bench.timeline import AudioArrival

PCM_RATE_HZ = 24_000
_QUIET_S = 0.5
_TEXTS = ("response.output_audio_transcript.delta", "response.output_text.delta")


class EventReader:
    """Fills a record.

    Outputs name the second of input that they belong to (`input_unit`); servers that do not say so are taken to answer
    one second after the other: each moment of listening and each piece of sound is that of the next one.
    """

    def __init__(self, record: SessionRecord, num_units: int) -> None:
        self.record = record
        self.is_closed = False
        self._next_unit = 0  # of a server that names none
        self._names_units = False
        record.units = [UnitTimes(ended_s=record.began_s + (number + 1) * UNIT_S) for number in range(num_units)]
        self._responses: dict[str, ResponseTimes] = {}

    @property
    def num_answered(self) -> int:
        return sum(response.done_s is not None for response in self.record.responses)

    def is_settled(self, now_s: float) -> bool:
        """Whether the last second has had its outputs: some, sound if it is spoken in, and then none for a while."""
        if not self.record.units:
            return True
        last = self.record.units[-1]
        is_whole = last.first_audio_s is not None or not last.has_spoken
        return last.last_output_s is not None and is_whole and now_s >= last.last_output_s + _QUIET_S

    def take(self, event: Mapping[str, Any], at_s: float) -> None:
        kind = event.get("type")
        if kind == "response.output_audio.delta":
            self._audio(event, at_s)
        elif kind in _TEXTS:
            self._text(event, at_s)
        elif kind == "response.listen" and not event.get("response_id"):
            self._decided(_object(event.get("response")).get("metadata"), at_s, speaks=False)
        elif kind == "response.created":
            self._created(event, at_s)
        elif kind == "response.speak":
            self._spoke(event, at_s)
        elif kind == "response.done":
            self._done(event, at_s)
        elif kind == "error":
            error = event.get("error")
            found = error.get("code") if isinstance(error, dict) else event.get("code")
            self.record.error = self.record.error or f"{found}: {_message(event)}"[:400]
        elif kind == "session.warning":
            self.record.notices.append(str(event.get("code")))
        elif kind in ("session.closed", "session.expired"):
            self.is_closed = True
            if event.get("reason") not in ("client_close", None):
                self.record.error = self.record.error or f"the server ended the session: {event['reason']}"

    def _created(self, event: Mapping[str, Any], at_s: float) -> None:
        response_id = _response_id(event)
        response = ResponseTimes(response_id=response_id, created_s=at_s)
        self._responses[response_id] = response
        self.record.responses.append(response)

    def _spoke(self, event: Mapping[str, Any], at_s: float) -> None:
        unit = self._decided(event.get("metadata"), at_s, speaks=True)
        response = self._responses.get(_response_id(event))
        if response is not None and unit is not None:
            response.unit_ended_s = unit.ended_s

    def _decided(self, metadata: object, at_s: float, *, speaks: bool) -> UnitTimes | None:
        unit = self._unit(metadata, is_new=True)
        if unit is not None:
            unit.decided_s = at_s if unit.decided_s is None else unit.decided_s
            unit.last_output_s = at_s
            unit.has_spoken = speaks
        return unit

    def _audio(self, event: Mapping[str, Any], at_s: float) -> None:
        delta = event.get("delta") or ""
        num_frames = (len(delta) * 3 // 4 - delta.count("=", -2)) // 2
        rate_hz = int(event.get("sample_rate_hz") or PCM_RATE_HZ)
        response = self._responses.get(_response_id(event))
        if response is not None:
            response.audios.append(AudioArrival(at_s=at_s, num_frames=num_frames, sample_rate_hz=rate_hz))
        unit = self._unit(event.get("metadata"), is_new=response is not None and len(response.audios) > 1)
        if unit is not None:
            unit.first_audio_s = at_s if unit.first_audio_s is None else unit.first_audio_s
            unit.last_output_s = at_s
            unit.has_spoken = True

    def _text(self, event: Mapping[str, Any], at_s: float) -> None:
        response = self._responses.get(_response_id(event))
        if response is not None and event.get("delta") and response.first_text_s is None:
            response.first_text_s = at_s

    def _done(self, event: Mapping[str, Any], at_s: float) -> None:
        response = self._responses.get(_response_id(event))
        if response is None:
            return
        shown = _object(event.get("response"))
        usage, metadata = _object(shown.get("usage")), _object(shown.get("metadata"))
        response.done_s = at_s
        response.status = str(shown.get("status"))
        response.num_output_tokens = int(usage.get("output_tokens") or 0)
        inner = _object(metadata.get("vllm_omni"))
        told = inner.get("response_request_metrics") or metadata.get("response_request_metrics")
        if isinstance(told, dict) and isinstance(told.get("measurement_origin"), dict):
            response.told = {key: float(told[key]) for key in ("ttft_ms", "ttfp_ms") if told.get(key) is not None}
        stages = inner.get("stage_metrics")
        if isinstance(stages, dict):
            self.record.stage_metrics = stages

    def _unit(self, metadata: object, *, is_new: bool) -> UnitTimes | None:
        """The second that an output is of. *is_new*: where the server names none, it is the next one's."""
        number = _object(metadata).get("input_unit")
        if isinstance(number, int):
            self._names_units = True
        elif self._names_units:
            return None  # made for silence of the server's own
        else:
            self._next_unit += is_new
            number = self._next_unit - 1
        if 0 <= number < len(self.record.units):
            return self.record.units[number]
        self.record.num_unmatched += 1
        return None


def _response_id(event: Mapping[str, Any]) -> str:
    return str(event.get("response_id") or _object(event.get("response")).get("id"))


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _message(event: Mapping[str, Any]) -> str:
    error = event.get("error")
    return str(error.get("message")) if isinstance(error, dict) else str(error)
