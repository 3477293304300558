"""Keeps every event of a session with its time of arrival, and computes from them what a report needs."""

import time
from collections.abc import Callable, Mapping, Sequence

from antiphon.client.events import AudioDelta, DuplexEvent, TextDelta, TranscriptDelta, wrap_event
from antiphon.client.session import DuplexSession
from antiphon.client.timing import Arrival, response_timing, window_timing
from antiphon.wire.realtime.json_frame import JsonObject

RECEIVED_AT = "_client_received_at_s"
OUTPUT_RATE_HZ = 24_000


class EventCollector:
    """All events of a session, for tools and tests: it keeps everything, so it is not for sessions without an end.

    Attributes:
        events: as they came, each with `_client_received_at_s`, seconds on the clock.
        response_audio: PCM of each response.
        response_ids: of the responses that were created, in order.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.events: list[JsonObject] = []
        self.event_received_at_s: list[float] = []
        self.response_audio: dict[str, bytearray] = {}
        self.response_ids: list[str] = []
        self.output_sample_rate_hz = OUTPUT_RATE_HZ
        self._clock = clock

    async def consume(self, client: DuplexSession) -> None:
        """Collect from now until the session ends; raises what `client.events()` raises."""
        async for event in client.events():
            self.add(event)

    def add(self, event: Mapping[str, object] | DuplexEvent, *, received_at_s: float | None = None) -> None:
        """Take in one event. None: it came just now."""
        at_s = self._clock() if received_at_s is None else received_at_s
        raw = dict(event.raw if isinstance(event, DuplexEvent) else event)
        typed = wrap_event(raw)
        raw[RECEIVED_AT] = at_s
        self.events.append(raw)
        self.event_received_at_s.append(at_s)
        response_id = typed.response_id
        if response_id is None:
            return
        if typed.type == "response.created" and response_id not in self.response_ids:
            self.response_ids.append(response_id)
        if isinstance(typed, AudioDelta):
            self.response_audio.setdefault(response_id, bytearray()).extend(typed.pcm)
            self.output_sample_rate_hz = typed.sample_rate_hz or self.output_sample_rate_hz

    def count(self, event_type: str) -> int:
        return sum(event["type"] == event_type for event in self.events)

    def audio_bytes(self, response_id: str | None = None) -> bytes:
        """The sound of one response, or of all in the order in which they began to sound."""
        if response_id is not None:
            return bytes(self.response_audio.get(response_id, b""))
        return b"".join(bytes(sound) for sound in self.response_audio.values())

    def errors(self) -> list[JsonObject]:
        return [event for event in self.events if event["type"] == "error"]

    def response_is_done(self, response_id: str) -> bool:
        return any(arrival.event.type == "response.done" for arrival in self._of(response_id))

    def response_text(self, response_id: str) -> str:
        """What the response says, in speech or in writing."""
        wanted = (TranscriptDelta, TextDelta)
        return "".join(item.event.text or "" for item in self._of(response_id) if isinstance(item.event, wanted))

    def first_received_at(self, *event_types: str, after_s: float = 0.0) -> float | None:
        return next(
            (item.at_s for item in self._arrivals() if item.event.type in event_types and item.at_s >= after_s), None
        )

    def last_received_at(self, event_type: str) -> float | None:
        found = [item.at_s for item in self._arrivals() if item.event.type == event_type]
        return found[-1] if found else None

    def timing_summary(
        self,
        *,
        after_s: float,
        input_committed_at_s: float | None = None,
        response_id: str | None = None,
        measurement_origin: Mapping[str, str] | None = None,
    ) -> JsonObject:
        """One response: the times of its text and sound, and what the server tells of its stages.

        Args:
            after_s: events before it are left out.
            input_committed_at_s: where times begin; None: at `response.created`.
            response_id: None: whatever came.
            measurement_origin: replaces the words that say where each time begins.
        """
        arrivals = self._arrivals() if response_id is None else self._of(response_id)
        late = [item for item in arrivals if item.at_s >= after_s]
        return response_timing(late, input_committed_at_s, measurement_origin)

    def global_timing_summary(
        self,
        *,
        after_s: float,
        window_started_at_s: float,
        response_ids: Sequence[str],
        measurement_origin: Mapping[str, str],
    ) -> JsonObject:
        """Several responses as one, timed from the moment *window_started_at_s*."""
        late = [
            item for item in self._arrivals() if item.at_s >= after_s and item.event.response_id in set(response_ids)
        ]
        return window_timing(late, window_started_at_s, response_ids, measurement_origin)

    def _arrivals(self) -> list[Arrival]:
        return [Arrival(wrap_event(raw), at_s) for raw, at_s in zip(self.events, self.event_received_at_s, strict=True)]

    def _of(self, response_id: str) -> list[Arrival]:
        return [item for item in self._arrivals() if item.event.response_id == response_id]


async def acknowledge_collected_playback(client: DuplexSession, collector: EventCollector) -> None:
    """Tell that everything collected so far was heard: for tools that have no loudspeaker."""
    for response_id, sound in collector.response_audio.items():
        heard_ms = len(sound) / 2 / collector.output_sample_rate_hz * 1000
        await client.ack_playback(heard_ms, response_id=response_id)
