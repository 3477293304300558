"""A synthetic reference voice: a gliding pitch with three formants that wander through a few vowels."""

import wave
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

RATE_HZ = 16_000
DURATION_S = 3.2
# First three formants in Hz of a, i, u, e, o (adult male, after Peterson and Barney 1952, rounded).
_VOWELS = np.array(
    [(730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480), (570, 840, 2410)], np.float64
)
_BANDWIDTHS_HZ = np.array([90.0, 110.0, 170.0])
_LEVELS = np.array([1.0, 0.5, 0.25])
_SYLLABLE_S = 0.32


def synthesise_voice(seed: int) -> NDArray[np.int16]:
    """Samples [N] int16, 16 kHz mono, peak at −6 dB."""
    random = np.random.Generator(np.random.PCG64(seed))
    time = np.arange(int(DURATION_S * RATE_HZ)) / RATE_HZ
    num_syllables = round(DURATION_S / _SYLLABLE_S)
    vowels = _VOWELS[random.integers(0, len(_VOWELS), num_syllables)]
    centres = (np.arange(num_syllables) + 0.5) * _SYLLABLE_S
    formants = np.stack([np.interp(time, centres, vowels[:, index]) for index in range(3)], axis=1)
    pitch_hz = 118.0 + 14.0 * np.sin(2 * np.pi * 0.7 * time) - 6.0 * time
    phase = 2 * np.pi * np.cumsum(pitch_hz) / RATE_HZ
    samples = np.zeros_like(time)
    for harmonic in range(1, 40):
        frequency = harmonic * pitch_hz
        distance = (frequency[:, None] - formants) / _BANDWIDTHS_HZ
        envelope = (_LEVELS / (1.0 + np.square(distance))).sum(axis=1)
        samples += np.where(frequency < 0.45 * RATE_HZ, envelope, 0.0) * np.sin(harmonic * phase)
    syllable = np.square(np.sin(np.pi * time / _SYLLABLE_S))
    samples = samples * (0.1 + 0.9 * syllable) + 0.003 * random.standard_normal(len(time))
    loud: NDArray[np.int16] = np.round(samples / np.abs(samples).max() * 16_384).astype(np.int16)
    return loud


def write_voice(path: Path, seed: int) -> None:
    """Write the reference recording as a 16-bit WAV."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE_HZ)
        file.writeframes(synthesise_voice(seed).astype("<i2").tobytes())
