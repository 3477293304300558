"""Mel filter banks with Slaney scale and area normalisation, as whisper and librosa define them."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LINEAR_HZ_PER_MEL = 200.0 / 3.0
_LOG_START_HZ = 1000.0
_LOG_START_MEL = _LOG_START_HZ / _LINEAR_HZ_PER_MEL
_LOG_STEP = np.log(6.4) / 27.0


def _hz_to_mel(hz: Array) -> Array:
    linear = hz / _LINEAR_HZ_PER_MEL
    log = _LOG_START_MEL + np.log(np.maximum(hz, _LOG_START_HZ) / _LOG_START_HZ) / _LOG_STEP
    return np.where(hz >= _LOG_START_HZ, log, linear)


def _mel_to_hz(mel: Array) -> Array:
    log = _LOG_START_HZ * np.exp(_LOG_STEP * (mel - _LOG_START_MEL))
    return np.where(mel >= _LOG_START_MEL, log, mel * _LINEAR_HZ_PER_MEL)


@lru_cache(maxsize=8)
def slaney_filters(sample_rate_hz: int, n_fft: int, num_bins: int, max_hz: float) -> Array:
    """Triangular filters from 0 Hz to *max_hz*, each with unit area: [num_bins, n_fft / 2 + 1], read-only."""
    bin_hz = np.linspace(0.0, sample_rate_hz / 2, n_fft // 2 + 1)
    ends = _hz_to_mel(np.array([0.0, max_hz]))
    edges_hz = _mel_to_hz(np.linspace(ends[0], ends[1], num_bins + 2))
    widths = np.diff(edges_hz)
    slopes = edges_hz[:, None] - bin_hz[None, :]
    rising, falling = -slopes[:-2] / widths[:-1, None], slopes[2:] / widths[1:, None]
    filters: Array = np.maximum(0.0, np.minimum(rising, falling))
    filters *= (2.0 / (edges_hz[2:] - edges_hz[:-2]))[:, None]
    filters.setflags(write=False)
    return filters
