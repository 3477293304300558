"""When a session's seconds ended and when their outputs came: the record that every figure is computed from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from antiphon.bench.continuity import underrun_s
from antiphon.bench.duplex_load.settings import UNIT_S
from antiphon.bench.timeline import AudioArrival

SERVER_ORIGIN = "server_monotonic_request_start"


@dataclass(kw_only=True)
class UnitTimes:
    """One second of input. Moments are seconds on the run's clock; None: nothing of the kind came.

    Attributes:
        ended_s: when a microphone would have had its last sample.
        decided_s: the listen or speak event. Later units of an answer that runs have none.
        first_audio_s: the first sound made for it.
        last_output_s: the last thing of any kind.
    """

    ended_s: float
    decided_s: float | None = None
    first_audio_s: float | None = None
    last_output_s: float | None = None
    has_spoken: bool = False

    @property
    def decision_s(self) -> float | None:
        return None if self.decided_s is None else self.decided_s - self.ended_s

    @property
    def audio_s(self) -> float | None:
        return None if self.first_audio_s is None else self.first_audio_s - self.ended_s

    @property
    def lateness_s(self) -> float | None:
        """By how much its last output missed the end of the next second; 0 for one in time."""
        return None if self.last_output_s is None else max(0.0, self.last_output_s - self.ended_s - UNIT_S)


@dataclass(kw_only=True)
class ResponseTimes:
    """One answer. `told` are the server's own times to first text and sound, where it tells them."""

    response_id: str
    created_s: float
    unit_ended_s: float | None = None  # of the unit that it answers
    first_text_s: float | None = None
    audios: list[AudioArrival] = field(default_factory=list)
    done_s: float | None = None
    status: str = ""
    num_output_tokens: int = 0
    told: Mapping[str, float] = field(default_factory=dict)

    @property
    def audio_duration_s(self) -> float:
        return sum(arrival.duration_s for arrival in self.audios)

    @property
    def origin(self) -> str:
        return SERVER_ORIGIN if self.told else "response.created" if self.unit_ended_s is None else "end of unit"

    @property
    def ttft_s(self) -> float | None:
        return self.told.get("ttft_ms", 0.0) / 1000 if "ttft_ms" in self.told else self._since(self.first_text_s)

    @property
    def ttfp_s(self) -> float | None:
        if "ttfp_ms" in self.told:
            return self.told["ttfp_ms"] / 1000
        return self._since(self.audios[0].at_s) if self.audios else None

    @property
    def rtf(self) -> float | None:
        duration_s = self.audio_duration_s
        return (self.audios[-1].at_s - self.created_s) / duration_s if duration_s else None

    @property
    def underrun_s(self) -> float:
        return underrun_s(self.audios)

    def _since(self, moment_s: float | None) -> float | None:
        begin_s = self.created_s if self.unit_ended_s is None else self.unit_ended_s
        return None if moment_s is None else moment_s - begin_s


@dataclass(kw_only=True)
class SessionRecord:
    """One session, ended once.

    Attributes:
        began_s: when its first sample was spoken.
        worst_send_delay_s: the most that a chunk was sent after it was due: what the client itself adds.
        num_unmatched: outputs that belong to no second of the input.
        notices: codes of `session.warning`.
    """

    began_s: float
    ended_s: float = 0.0
    session_id: str = ""
    units: list[UnitTimes] = field(default_factory=list)
    responses: list[ResponseTimes] = field(default_factory=list)
    worst_send_delay_s: float = 0.0
    num_unmatched: int = 0
    num_slot_waits: int = 0
    notices: list[str] = field(default_factory=list)
    stage_metrics: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    error: str | None = None

    @property
    def audios(self) -> list[AudioArrival]:
        return [arrival for response in self.responses for arrival in response.audios]

    @property
    def stream_ttft_s(self) -> float | None:
        """From the first sample to the first text."""
        times = [response.first_text_s for response in self.responses if response.first_text_s is not None]
        return times[0] - self.began_s if times else None

    @property
    def stream_ttfp_s(self) -> float | None:
        return self.audios[0].at_s - self.began_s if self.audios else None

    @property
    def stream_rtf(self) -> float | None:
        """Time from the first sample to the last sound, over all the sound."""
        duration_s = sum(arrival.duration_s for arrival in self.audios)
        return (self.audios[-1].at_s - self.began_s) / duration_s if duration_s else None


def mean_of(values: Sequence[float | None]) -> float | None:
    found = [value for value in values if value is not None]
    return fmean(found) if found else None
