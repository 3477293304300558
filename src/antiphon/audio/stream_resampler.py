"""A resampler that keeps its state between the pieces of one stream, so that no click is heard at their joints."""

import numpy as np
import soxr
from numpy.typing import NDArray


class StreamResampler:
    """Converts mono float32 pieces from one rate to another.

    soxr withholds some samples until later ones are known; over a whole stream, `flush` included, the number of
    samples is that of the input times the ratio, within one.
    """

    def __init__(self, from_hz: int, to_hz: int) -> None:
        self.from_hz = from_hz
        self.to_hz = to_hz
        self._stream = None if from_hz == to_hz else soxr.ResampleStream(from_hz, to_hz, 1, dtype="float32")

    def push(self, samples: NDArray[np.float32], *, last: bool = False) -> NDArray[np.float32]:
        """Convert *samples* [N]; *last* also gives what was withheld, after which the stream starts anew."""
        if self._stream is None:
            return samples
        out: NDArray[np.float32] = self._stream.resample_chunk(samples, last=last)
        if last:
            self._stream = soxr.ResampleStream(self.from_hz, self.to_hz, 1, dtype="float32")
        return out

    def flush(self) -> NDArray[np.float32]:
        return self.push(np.zeros(0, np.float32), last=True)
