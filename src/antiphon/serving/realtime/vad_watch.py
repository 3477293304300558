"""Follows the detectors of live sessions: how long a score takes, how late an end is found, how often one fails."""

from collections import deque
from collections.abc import Callable
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from antiphon.core.errors import AntiphonError
from antiphon.realtime.vad import FrameScorer, ScorerSource
from antiphon.telemetry.families import Families

_MAX_NOTES = 65_536  # a minute of two thousand sessions; then the oldest go


class VadWatch:
    """Notes are kept until the next look at the metrics. On the event loop's thread.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._scores_s: deque[float] = deque(maxlen=_MAX_NOTES)
        self._delays_s: deque[float] = deque(maxlen=_MAX_NOTES)
        self._num_errors = 0

    def watched(self, source: ScorerSource) -> ScorerSource:
        """*source*, whose scorers are followed."""

        def make() -> FrameScorer:
            try:
                return _WatchedScorer(source(), self)
            except AntiphonError:
                self._num_errors += 1
                raise

        return make

    def end_found(self, delay_s: float) -> None:
        """An end of speech was found after so much more sound."""
        self._delays_s.append(delay_s)

    def score(self, scorer: FrameScorer, frame: NDArray[np.float32]) -> float:
        start_s = self._clock()
        try:
            return scorer.score(frame)
        except AntiphonError:
            self._num_errors += 1
            raise
        finally:
            self._scores_s.append(self._clock() - start_s)

    def move_to(self, families: Families) -> None:
        """Hand over what was noted."""
        for notes, histogram in (
            (self._scores_s, families.vad_inference_latency_s),
            (self._delays_s, families.vad_endpoint_delay_s),
        ):
            while notes:
                families.of(histogram).observe(notes.popleft())
        families.of(families.vad_errors).inc(self._num_errors)
        self._num_errors = 0


class _WatchedScorer:
    def __init__(self, scorer: FrameScorer, watch: VadWatch) -> None:
        self._scorer, self._watch = scorer, watch

    def score(self, frame: NDArray[np.float32]) -> float:
        return self._watch.score(self._scorer, frame)

    def reset(self) -> None:
        self._scorer.reset()
