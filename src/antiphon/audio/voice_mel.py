"""The vocoder's mel at 24 kHz: what a reference voice looks like to the flow model.

Model specification, section 4.1.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from antiphon.audio.mel_filters import slaney_filters

SAMPLE_RATE_HZ = 24_000
HOP_SAMPLES = 480
NUM_BINS = 80
_N_FFT = 1920
_MAX_HZ = 8_000.0
_MARGIN = (_N_FFT - HOP_SAMPLES) // 2


def voice_mel(samples: NDArray[np.float32]) -> NDArray[np.float32]:
    """Natural-log mel of mono 24 kHz *samples* [N], N > 720: [N // 480, 80].

    Both ends are reflected by 720 samples and frames start at their left edge, so a frame is centred on its own 20 ms.
    """
    padded = np.pad(samples.astype(np.float64), _MARGIN, mode="reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_N_FFT) / _N_FFT)
    spectrum = np.fft.rfft(sliding_window_view(padded, _N_FFT)[::HOP_SAMPLES] * window, axis=-1)
    magnitude = np.sqrt(spectrum.real**2 + spectrum.imag**2 + 1e-9)
    mel = magnitude @ slaney_filters(SAMPLE_RATE_HZ, _N_FFT, NUM_BINS, _MAX_HZ).T
    return np.asarray(np.log(np.maximum(mel, 1e-5)), dtype=np.float32)


def fit_frames(mel: NDArray[np.float32], num_frames: int) -> NDArray[np.float32]:
    """Crop *mel* [M, bins] to *num_frames*, or repeat its last frame until it has as many."""
    missing = num_frames - len(mel)
    return np.pad(mel, ((0, missing), (0, 0)), mode="edge") if missing > 0 else mel[:num_frames]
