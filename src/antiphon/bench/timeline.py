"""What one request brought back and when: the record from which every metric is computed.

Times of events are seconds after t0, the moment just before the request was sent, on a monotonic clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

StageMetrics = Mapping[str, Mapping[str, object]]  # stage id to the server's own figures


@dataclass(frozen=True, kw_only=True)
class TextArrival:
    """One text event. `num_tokens` is how many tokens it added; 0 for a role or empty event."""

    at_s: float
    num_tokens: int
    text: str


@dataclass(frozen=True, kw_only=True)
class AudioArrival:
    """One audio event. `num_frames` is 0 for an event without sound.

    `payload` is the sound as it came, a file or 16-bit samples, if whoever read the answer was told to keep it.
    """

    at_s: float
    num_frames: int
    sample_rate_hz: int
    num_channels: int = 1
    payload: bytes = b""

    @property
    def duration_s(self) -> float:
        return self.num_frames / self.sample_rate_hz


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens as the server counted them."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, kw_only=True)
class Answer:
    """All that a server sent for one request; with `error` None it succeeded.

    Attributes:
        e2e_s: from t0 to the last event other than the end mark.
        num_dropped_audio: audio events left out because their format differs from the first one's.
    """

    e2e_s: float
    texts: tuple[TextArrival, ...] = ()
    audios: tuple[AudioArrival, ...] = ()
    usage: Usage | None = None
    stage_metrics: StageMetrics = field(default_factory=dict)
    finish_reason: str | None = None
    num_dropped_audio: int = 0
    error: str | None = None

    @property
    def text(self) -> str:
        return "".join(arrival.text for arrival in self.texts)


@dataclass(frozen=True, kw_only=True)
class RequestRecord:
    """One request, ended once.

    Attributes:
        started_s: t0 on the run's clock.
        due_s: when the arrival schedule wanted it sent, on the same clock.
        prompt_len_tokens: as the data set counts; the server's own count goes first where it tells it.
        num_retries: times it was sent again after the connection broke.
    """

    started_s: float
    due_s: float
    prompt_len_tokens: int
    answer: Answer
    num_retries: int = 0

    @property
    def ended_s(self) -> float:
        return self.started_s + self.answer.e2e_s
