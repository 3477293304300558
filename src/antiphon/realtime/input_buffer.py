"""Pending input of one session, cut into exact units of one second."""

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.realtime.limits import UNIT_SAMPLES

SAMPLE_BYTES = 4


@dataclass(frozen=True, eq=False)
class Second:
    """A unit's content, not yet numbered."""

    samples: NDArray[np.float32]  # [16000]
    frames: tuple[bytes, ...]
    force_listen: bool
    is_speech: bool


@dataclass(frozen=True)
class _Span:
    """What an append said about its samples, in absolute positions."""

    end: int
    force_listen: bool
    is_speech: bool


class InputBuffer:
    """Samples wait until a unit of them is there; frame groups wait for units, first in, first out.

    Positions count the session's samples from its start, so they are also the session's clock.
    """

    def __init__(self) -> None:
        self._pieces: deque[NDArray[np.float32]] = deque()
        self._spans: deque[_Span] = deque()
        self._groups: deque[tuple[bytes, ...]] = deque()
        self._start = 0
        self._end = 0

    @property
    def num_samples(self) -> int:
        return self._end - self._start

    @property
    def num_bytes(self) -> int:
        return self.num_samples * SAMPLE_BYTES + sum(len(frame) for group in self._groups for frame in group)

    @property
    def position(self) -> int:
        """The session's samples so far, pending ones too."""
        return self._end

    def push(
        self, samples: NDArray[np.float32], *, frames: tuple[bytes, ...], force_listen: bool, is_speech: bool
    ) -> None:
        """Add an append's samples [N], any N, and the frame group that rides it."""
        if frames:
            self._groups.append(frames)
        if not len(samples):
            return
        self._pieces.append(samples)
        self._end += len(samples)
        self._spans.append(_Span(self._end, force_listen, is_speech))

    def take(self, *, pad: bool = False) -> Second | None:
        """The oldest second, zero-padded if *pad*; None while it is not full, or nothing waits."""
        count = min(self.num_samples, UNIT_SAMPLES)
        if count == 0 or (count < UNIT_SAMPLES and not pad):
            return None
        samples = np.zeros(UNIT_SAMPLES, np.float32)
        filled = 0
        while filled < count:
            piece = self._pieces.popleft()
            used = min(len(piece), count - filled)
            samples[filled : filled + used] = piece[:used]
            if used < len(piece):
                self._pieces.appendleft(piece[used:])
            filled += used
        self._start += count
        spans = self._spans_until(self._start)
        return Second(
            samples=samples,
            frames=self._groups.popleft() if self._groups else (),
            force_listen=any(span.force_listen for span in spans),
            is_speech=any(span.is_speech for span in spans),
        )

    def _spans_until(self, position: int) -> list[_Span]:
        """The spans that begin before *position*; the last one stays if it reaches beyond."""
        spans = []
        while self._spans:
            spans.append(self._spans[0])
            if self._spans[0].end > position:
                break
            self._spans.popleft()
            if spans[-1].end == position:
                break
        return spans

    def clear(self) -> None:
        """Drop everything that waits. The clock goes on from where it is."""
        self._pieces.clear()
        self._spans.clear()
        self._groups.clear()
        self._start = self._end
