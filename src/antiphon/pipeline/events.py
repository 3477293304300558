"""What a generation reports while it runs, one type for each thing that happens."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from antiphon.core.errors import AntiphonError
from antiphon.core.outputs import FinishReason, RequestMetrics


@dataclass(frozen=True)
class TextDelta:
    """Text that is final: never half a character, never the start of a stop string. Its tokens may lag behind."""

    text: str
    num_tokens: int = field(default=0, compare=False)  # drawn so far


@dataclass(frozen=True)
class AudioChunk:
    """The next samples of the speech, float32 [N] in [−1, 1], mono."""

    samples: NDArray[np.float32]
    sample_rate_hz: int


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The last event of every request that is not ended by an error."""

    text: str
    token_ids: tuple[int, ...]  # everything drawn, the terminator too
    finish_reason: FinishReason
    codec_ids: tuple[int, ...]  # one for each 40 ms of speech; empty without speech
    speech_finish_reason: FinishReason | None  # None: nothing was spoken
    metrics: RequestMetrics


ChatEvent = TextDelta | AudioChunk | Finished


@dataclass(frozen=True)
class Failed:
    """The request ended by an error."""

    error: AntiphonError
    stage: str | None = None  # the stage that gave up; None: it did not get that far


@dataclass(frozen=True)
class Aborted:
    """The request ended because somebody aborted it."""


End = Finished | Failed | Aborted
RequestEvent = TextDelta | AudioChunk | End  # of a request of the engine: any number of the first two, then one end
