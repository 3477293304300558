"""Compares speech made of the same codes and noise: identical samples, equal up to rounding, or a bounded change."""

from collections.abc import Mapping

from antiphon.models.code2wav.hift_stream import HELD_SAMPLES
from antiphon.offline.gate.limits import (
    MAX_CLICK_RATIO,
    MAX_LOG_MEL,
    MAX_ROUNDED_LOG_MEL,
    MAX_ROUNDED_STFT,
    MAX_STFT,
)
from antiphon.offline.gate.speech_distance import (
    Samples,
    click_ratio,
    largest_difference,
    log_mel_distance,
    stft_distance,
)
from antiphon.offline.gate.verdict import Check

_CHUNK_SAMPLES = 24_000  # a full chunk is one second; the first one is shorter by what the vocoder holds back

Speeches = Mapping[str, Samples]


def same_samples(plain: Speeches, fast: Speeches, name: str = "largest difference of a sample") -> list[Check]:
    """Not one sample may differ."""
    return [Check(name=name, value=largest_difference(plain, fast), limit=0.0)]


def close_samples(plain: Speeches, fast: Speeches) -> list[Check]:
    """Another order of summation: neither mel nor spectra move."""
    return _distances(plain, fast, MAX_ROUNDED_LOG_MEL, MAX_ROUNDED_STFT)


def bounded_samples(plain: Speeches, fast: Speeches) -> list[Check]:
    """A change that listeners do not notice, and no clicks where chunks meet."""
    clicks = max(
        click_ratio(samples, fast[name], tuple(range(_CHUNK_SAMPLES - HELD_SAMPLES, len(samples), _CHUNK_SAMPLES)))
        for name, samples in plain.items()
    )
    return [
        *_distances(plain, fast, MAX_LOG_MEL, MAX_STFT),
        Check(name="jump at a chunk's edge ÷ usual", value=clicks, limit=MAX_CLICK_RATIO),
    ]


def _distances(plain: Speeches, fast: Speeches, max_log_mel: float, max_stft: float) -> list[Check]:
    if any(samples.shape != fast[name].shape for name, samples in plain.items()):
        return [Check(name="streams of another length", value=1, limit=0.0)]
    pairs = [(samples, fast[name]) for name, samples in plain.items()]
    mels = [log_mel_distance(first, second) for first, second in pairs]
    return [
        Check(name="mean log-mel difference", value=max(mean for mean, _ in mels), limit=max_log_mel),
        Check(name="STFT distance", value=max(stft_distance(*pair) for pair in pairs), limit=max_stft),
    ]
