"""Weights of the tiny flow model and vocoder: random, but audible and not clipped."""

import numpy as np

from antiphon.models.code2wav.config import HiFTConfig
from antiphon.pipeline.tiny_checkpoint.values import Values, default_values

_MEL_LEVEL = -5.0  # log-mel of soft speech
_PITCH_HZ = 140.0
# Log magnitude of the vocoder's spectrum before its random part, at 0 Hz and per bin of 1.5 kHz: speech falls off.
_LOUDNESS, _TILT = -0.5, -0.6

TINY_HIFT = HiFTConfig(
    num_mel_bins=80,
    base_channels=32,
    f0_channels=16,
    num_f0_layers=5,
    num_harmonics=9,
    up_rates=(8, 5, 3),
    up_kernels=(16, 11, 7),
    source_kernels=(7, 7, 11),
    kernels=(3, 7, 11),
    n_fft=16,
    pre_kernel=7,
    post_kernel=7,
)


def flow_values(seed: int, shapes: dict[str, tuple[int, ...]]) -> Values:
    """Name → value of `flow.pt`. The ODE carries unit noise to log-mels around the level of speech."""
    values = default_values(seed, shapes)
    # The solver integrates a velocity over unit time, from noise of mean 0: its mean is the level to reach.
    values["decoder.estimator.final_layer.linear.bias"] += np.float32(_MEL_LEVEL)
    return values


def hift_values(seed: int, shapes: dict[str, tuple[int, ...]]) -> Values:
    """Parameter → value of the vocoder, weight norm not yet split."""
    values = default_values(seed, shapes)
    values["conv_pre.weight"] *= np.float32(1 / abs(_MEL_LEVEL))
    values["f0_predictor.condnet.0.weight"] *= np.float32(1 / abs(_MEL_LEVEL))
    values["f0_predictor.classifier.weight"] *= np.float32(40.0)  # Hz: the pitch should move
    values["f0_predictor.classifier.bias"][:] = _PITCH_HZ
    num_bins = TINY_HIFT.n_fft // 2 + 1
    values["conv_post.weight"][:num_bins] *= np.float32(0.5)
    values["conv_post.bias"][:num_bins] = _LOUDNESS + _TILT * np.arange(num_bins)
    return values
