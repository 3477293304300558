"""Server voice activity detection: scores of 32 ms frames to starts and stops of speech (specification section 14)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from antiphon.realtime.limits import INPUT_RATE_HZ
from antiphon.realtime.speech_verdict import root_mean_square
from antiphon.wire.realtime.turn_detection import ServerVad

FRAME_SAMPLES = 512
_FRAME_MS = FRAME_SAMPLES * 1000 / INPUT_RATE_HZ
_HYSTERESIS = 0.15
_MIN_OFF = 0.01


class FrameScorer(Protocol):
    """Gives each frame [512] of a 16 kHz stream the probability that it is speech; keeps the stream's state."""

    def score(self, frame: NDArray[np.float32]) -> float: ...

    def reset(self) -> None: ...


ScorerSource = Callable[[], FrameScorer]  # raises AntiphonError where the detector's model is missing


class LoudnessScorer:
    """Loud is speech: for the scripted engine, whose speech is a tone."""

    def __init__(self, threshold_rms: float = 0.003) -> None:
        self._threshold_rms = threshold_rms

    def score(self, frame: NDArray[np.float32]) -> float:
        return 1.0 if root_mean_square(frame) >= self._threshold_rms else 0.0

    def reset(self) -> None:
        pass


@dataclass(frozen=True)
class VadEdge:
    """Speech began or ended at `position`, in the session's samples (padding before a start included)."""

    is_start: bool
    position: int
    decided_at: int = field(default=0, compare=False)  # the samples that had to be heard for it

    @property
    def delay_s(self) -> float:
        return (self.decided_at - self.position) / INPUT_RATE_HZ


class Detector:
    """One session's detector. Short noises below the minimum speech duration start nothing."""

    def __init__(self, scorer: FrameScorer, settings: ServerVad, position: int = 0) -> None:
        self._scorer = scorer
        self.settings = settings
        self._off = max(settings.threshold - _HYSTERESIS, _MIN_OFF)
        self._rest = np.zeros(0, np.float32)
        self._position = position  # of the next frame's first sample
        self._loud_ms = 0.0
        self._quiet_ms = 0.0
        self.is_speaking = False

    def push(self, samples: NDArray[np.float32]) -> list[VadEdge]:
        """Hear *samples* [N]; what does not fill a frame waits for the next ones."""
        stream = np.concatenate((self._rest, samples))
        whole = len(stream) // FRAME_SAMPLES * FRAME_SAMPLES
        self._rest = stream[whole:]
        edges = []
        for start in range(0, whole, FRAME_SAMPLES):
            edge = self._frame(self._scorer.score(stream[start : start + FRAME_SAMPLES]))
            if edge is not None:
                edges.append(edge)
        return edges

    def reset(self, position: int) -> None:
        """Forget the stream: the next sample is at *position*."""
        self._scorer.reset()
        self._rest = np.zeros(0, np.float32)
        self._position = position
        self._loud_ms = self._quiet_ms = 0.0
        self.is_speaking = False

    def _frame(self, score: float) -> VadEdge | None:
        self._position += FRAME_SAMPLES
        if self.is_speaking:
            self._quiet_ms = self._quiet_ms + _FRAME_MS if score < self._off else 0.0
            if self._quiet_ms < max(self.settings.silence_duration_ms, _FRAME_MS):
                return None
            self.is_speaking, self._loud_ms = False, 0.0
            return VadEdge(False, self._position - _samples(self._quiet_ms), self._position)
        self._loud_ms = self._loud_ms + _FRAME_MS if score >= self.settings.threshold else 0.0
        if self._loud_ms < max(self.settings.min_speech_duration_ms, _FRAME_MS):
            return None
        self.is_speaking, self._quiet_ms = True, 0.0
        padding = _samples(self._loud_ms + self.settings.prefix_padding_ms)
        return VadEdge(True, max(0, self._position - padding), self._position)


def _samples(duration_ms: float) -> int:
    return round(duration_ms * INPUT_RATE_HZ / 1000)
