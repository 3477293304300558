"""The figures of one level of live sessions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from antiphon.bench.duplex_load.timeline import ResponseTimes, SessionRecord, UnitTimes
from antiphon.bench.percentiles import Distribution, describe


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One distribution by name; `ending` is its unit, ms values are kept in seconds until they are shown."""

    name: str
    title: str
    ending: str

    @property
    def scale(self) -> float:
        return 1000.0 if self.ending == "ms" else 1.0

    @property
    def key(self) -> str:
        return f"{self.name}_{self.ending}" if self.ending else self.name

    @property
    def label(self) -> str:
        return f"{self.name.upper()} ({self.ending})" if self.ending else self.name.upper()


FIGURES = (
    Figure(name="unit_decision", title="End of Unit to Decision", ending="ms"),
    Figure(name="unit_first_audio", title="End of Unit to First Audio", ending="ms"),
    Figure(name="unit_lateness", title="Unit Lateness", ending="ms"),
    Figure(name="ttft", title="Time to First Token", ending="ms"),
    Figure(name="audio_ttfp", title="Time to First Packet", ending="ms"),
    Figure(name="audio_rtf", title="Real Time Factor", ending=""),
    Figure(name="audio_duration", title="Audio Duration", ending="s"),
    Figure(name="audio_underrun", title="Streaming Audio Underrun", ending="s"),
    Figure(name="stream_ttft", title="Stream to First Token", ending="ms"),
    Figure(name="stream_ttfp", title="Stream to First Packet", ending="ms"),
    Figure(name="stream_rtf", title="Stream Real Time Factor", ending=""),
)


@dataclass(frozen=True, kw_only=True)
class DuplexSummary:
    """One level.

    Attributes:
        num_units, num_units_answered, num_units_late: seconds of input; those with any output, which those heard
            inside an answer need not have; those whose last output missed the end of the next second.
        num_units_spoken: seconds for which sound was made.
        worst_send_delay_s: what the client itself added at worst; latencies above mean nothing below it.
    """

    duration_s: float
    completed: int
    failed: int
    num_units: int
    num_units_answered: int
    num_units_spoken: int
    num_units_late: int
    num_responses: int
    audio_duration_s: float
    num_audio_frames: int
    output_tokens: int
    continuity_ok_rate: float | None
    worst_send_delay_s: float
    num_unmatched: int
    num_slot_waits: int
    notices: Mapping[str, int]
    distributions: Mapping[str, Distribution]
    errors: tuple[str, ...]

    def per_s(self, amount: float) -> float:
        return amount / self.duration_s if self.duration_s > 0 else 0.0


def summarise_duplex(
    records: Sequence[SessionRecord], *, duration_s: float, percents: Sequence[float], continuity_threshold_s: float
) -> DuplexSummary:
    """Failed sessions count as failed and give no sample."""
    good = [record for record in records if record.error is None]
    units = [unit for record in good for unit in record.units]
    responses = [response for record in good for response in record.responses]
    spoken = [response for response in responses if response.audios]
    smooth = [response for response in spoken if response.underrun_s <= continuity_threshold_s]
    notices = [code for record in good for code in record.notices]
    samples = samples_of(good)
    return DuplexSummary(
        duration_s=duration_s,
        completed=len(good),
        failed=len(records) - len(good),
        num_units=len(units),
        num_units_answered=sum(unit.last_output_s is not None for unit in units),
        num_units_spoken=sum(unit.first_audio_s is not None for unit in units),
        num_units_late=sum(bool(unit.lateness_s) for unit in units),
        num_responses=len(responses),
        audio_duration_s=sum(response.audio_duration_s for response in responses),
        num_audio_frames=sum(arrival.num_frames for response in responses for arrival in response.audios),
        output_tokens=sum(response.num_output_tokens for response in responses),
        continuity_ok_rate=len(smooth) / len(spoken) if spoken else None,
        worst_send_delay_s=max((record.worst_send_delay_s for record in good), default=0.0),
        num_unmatched=sum(record.num_unmatched for record in good),
        num_slot_waits=sum(record.num_slot_waits for record in records),
        notices={code: notices.count(code) for code in sorted(set(notices))},
        distributions={
            name: found for name, values in samples.items() if (found := describe(values, percents)) is not None
        },
        errors=tuple(sorted({record.error for record in records if record.error})),
    )


def samples_of(records: Sequence[SessionRecord]) -> dict[str, list[float]]:
    """Every figure's samples, in seconds or ratios; what was not measured is left out, not 0."""
    units = [unit for record in records for unit in record.units]
    responses = [response for record in records for response in record.responses]
    return {**_unit_samples(units), **_response_samples(responses), **_stream_samples(records)}


def _unit_samples(units: Sequence[UnitTimes]) -> dict[str, list[float]]:
    return {
        "unit_decision": _present([unit.decision_s for unit in units]),
        "unit_first_audio": _present([unit.audio_s for unit in units]),
        "unit_lateness": _present([unit.lateness_s for unit in units]),
    }


def _response_samples(responses: Sequence[ResponseTimes]) -> dict[str, list[float]]:
    spoken = [response for response in responses if response.audios]
    return {
        "ttft": _present([response.ttft_s for response in responses]),
        "audio_ttfp": _present([response.ttfp_s for response in responses]),
        "audio_rtf": _present([response.rtf for response in responses]),
        "audio_duration": [response.audio_duration_s for response in spoken],
        "audio_underrun": [response.underrun_s for response in spoken],
    }


def _stream_samples(records: Sequence[SessionRecord]) -> dict[str, list[float]]:
    return {
        "stream_ttft": _present([record.stream_ttft_s for record in records]),
        "stream_ttfp": _present([record.stream_ttfp_s for record in records]),
        "stream_rtf": _present([record.stream_rtf for record in records]),
    }


def _present(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]
