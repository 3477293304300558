"""How a request ended and what it took, in words that every tier shares."""

from dataclasses import dataclass
from enum import Enum


class FinishReason(str, Enum):
    """Why a stage stopped by itself."""

    STOP = "stop"  # a stop token or stop string
    LENGTH = "length"  # max_tokens, or the end of a model's context


@dataclass(frozen=True, kw_only=True)
class RequestMetrics:
    """What one request took. Times are seconds since the request was started; None where the event did not happen."""

    num_prompt_tokens: int
    num_text_tokens: int
    num_cached_tokens: int = 0  # of the prompt, found in the prefix cache
    num_codec_frames: int  # 40 ms of speech each
    audio_duration_s: float
    time_to_first_text_s: float | None
    text_finished_s: float
    time_to_first_audio_s: float | None
    total_s: float
    queue_wait_s: float | None = None  # until the first stage was given it
    first_code_s: float | None = None  # when the Talker had drawn its first codes
    codes_finished_s: float | None = None  # when it had drawn its last
    replicas: tuple[int, int, int] = (0, 0, 0)  # of Thinker, Talker and Code2Wav that did the work

    @property
    def rtf(self) -> float | None:
        """Time divided by audio made, for the whole request; None without audio."""
        return self.total_s / self.audio_duration_s if self.audio_duration_s > 0 else None
