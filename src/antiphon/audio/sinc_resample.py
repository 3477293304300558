"""Windowed-sinc resampling for reference voices.

Model specification, section 4.1: Hann window, six zero crossings on each side, cut-off at 0.99 of the lower Nyquist
frequency. Other good resamplers will not do here: on recorded clips soxr changed a fifth of the codec ids. Everything
else uses soxr.
"""

from math import ceil, gcd

import numpy as np
from numpy.typing import NDArray

ZERO_CROSSINGS = 6
ROLL_OFF = 0.99
_ROWS_AT_ONCE = 1 << 16  # output samples computed together: bounds the memory of the gathered taps


def sinc_resample(samples: NDArray[np.float32], from_hz: int, to_hz: int) -> NDArray[np.float32]:
    """Resample *samples* [N] to ⌈N · to / from⌉ samples; zeros are assumed outside."""
    if from_hz == to_hz:
        return samples
    divisor = gcd(from_hz, to_hz)
    before, after = from_hz // divisor, to_hz // divisor
    cutoff = min(before, after) * ROLL_OFF
    reach = ceil(ZERO_CROSSINGS * before / cutoff)  # input samples the kernel sees on each side
    taps = np.arange(-reach, reach + 2)
    # Output m lies at input time m · before / after; everything but its integer part repeats every `after` outputs.
    fraction = (np.arange(after) * before % after) / after
    time = np.clip((taps[None, :] - fraction[:, None]) * cutoff / before, -ZERO_CROSSINGS, ZERO_CROSSINGS)
    kernel = np.sinc(time) * np.cos(time * np.pi / ZERO_CROSSINGS / 2) ** 2 * (cutoff / before)
    padded = np.pad(samples.astype(np.float64), (reach, reach + 2))
    num_out = -(-len(samples) * after // before)
    out = np.empty(num_out, dtype=np.float32)
    for start in range(0, num_out, _ROWS_AT_ONCE):
        index = np.arange(start, min(start + _ROWS_AT_ONCE, num_out))
        window = padded[(index * before // after)[:, None] + np.arange(len(taps))]
        out[index] = np.einsum("ij,ij->i", window, kernel[index % after])
    return out
