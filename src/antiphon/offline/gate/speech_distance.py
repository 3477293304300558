"""How far two recordings of the same codes and noise are apart: log-mel, spectra of several sizes, and clicks."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from antiphon.audio.mel_filters import slaney_filters

SAMPLE_RATE_HZ = 24_000
_MEL_BINS, _MEL_SIZE, _MEL_HOP = 80, 1024, 256
_STFT_SIZES = ((512, 128), (1024, 256), (2048, 512))
_FLOOR = 1e-5  # of magnitudes: what lies 100 dB below full scale is not heard

Samples = NDArray[np.float32]
Spectrum = NDArray[np.float64]


def log_mel_distance(first: Samples, second: Samples) -> tuple[float, float]:
    """Mean and largest difference of two natural log-mel spectra, over bins and frames."""
    apart = np.abs(_log_mel(first) - _log_mel(second))
    return float(apart.mean()), float(apart.max())


def stft_distance(reference: Samples, other: Samples) -> float:
    """Multi-resolution STFT distance: spectral convergence and log magnitude difference, averaged over three sizes."""
    total = 0.0
    for size, hop in _STFT_SIZES:
        expected, found = _magnitudes(reference, size, hop), _magnitudes(other, size, hop)
        convergence = np.linalg.norm(expected - found) / max(float(np.linalg.norm(expected)), _FLOOR)
        logs = np.abs(np.log(np.maximum(expected, _FLOOR)) - np.log(np.maximum(found, _FLOOR))).mean()
        total += float(convergence + logs)
    return total / len(_STFT_SIZES)


def click_ratio(reference: Samples, other: Samples, boundaries: tuple[int, ...]) -> float:
    """Largest jump at a chunk boundary of *other* ÷ the larger of *reference*'s there and its usual jump.

    Args:
        boundaries: indices of the first sample of each later chunk.
    """
    jumps, expected = np.abs(np.diff(other)), np.abs(np.diff(reference))
    usual = float(np.percentile(expected, 99)) if len(expected) else 0.0
    ratios = [
        float(jumps[at - 1]) / max(float(expected[at - 1]), usual, _FLOOR) for at in boundaries if at < len(other)
    ]
    return max(ratios, default=0.0)


def largest_difference(first: Mapping[str, Samples], second: Mapping[str, Samples]) -> float:
    """Of any sample of any stream; infinite where lengths differ or a sample is not a number."""
    apart = 0.0
    for name, samples in first.items():
        other = second[name]
        if samples.shape != other.shape or not np.isfinite(other).all():
            return float("inf")
        apart = max(apart, float(np.abs(samples - other).max(initial=0.0)))
    return apart


def _log_mel(samples: Samples) -> Spectrum:
    filters = slaney_filters(SAMPLE_RATE_HZ, _MEL_SIZE, _MEL_BINS, SAMPLE_RATE_HZ / 2)
    mel: Spectrum = np.log(np.maximum(_magnitudes(samples, _MEL_SIZE, _MEL_HOP) @ filters.T, _FLOOR))
    return mel


def _magnitudes(samples: Samples, size: int, hop: int) -> Spectrum:
    """[frames, size / 2 + 1] of Hann windows that lie wholly inside; short sounds are padded to one."""
    padded = np.pad(samples.astype(np.float64), (0, max(0, size - len(samples))))
    frames = np.lib.stride_tricks.sliding_window_view(padded, size)[::hop]
    spectrum: Spectrum = np.abs(np.fft.rfft(frames * np.hanning(size), axis=1)) / size
    return spectrum
