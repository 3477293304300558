"""Recordings as arrays, at their own rate or at the one that a scorer listens at."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from antiphon.bench.timeline import AudioArrival
from antiphon.core.errors import MediaError

Samples = NDArray[np.float32]  # [N] mono, ±1


@dataclass(frozen=True)
class Sound:
    """One recording, mono."""

    samples: Samples
    rate_hz: int

    @property
    def duration_s(self) -> float:
        return len(self.samples) / self.rate_hz

    def at_rate(self, rate_hz: int) -> Samples:
        """The samples at *rate_hz*."""
        if rate_hz == self.rate_hz or not len(self.samples):
            return self.samples
        converted: Samples = soxr.resample(self.samples, self.rate_hz, rate_hz, quality="HQ").astype(np.float32)
        return converted


def read_sound(path: Path) -> Sound:
    """A WAV, FLAC, Ogg or MP3 file, its channels averaged. Raises MediaError if it cannot be read or is empty."""
    try:
        samples, rate_hz = soundfile.read(path, dtype="float32", always_2d=True)
    except (OSError, soundfile.LibsndfileError) as error:
        raise MediaError(f"{path}: cannot be read as sound ({error})") from None
    if not len(samples):
        raise MediaError(f"{path}: holds no sound")
    return Sound(np.ascontiguousarray(samples.mean(axis=1), np.float32), int(rate_hz))


def join_arrivals(arrivals: Sequence[AudioArrival]) -> Sound | None:
    """What arrived, one piece after the other; None if there was no sound. Raises MediaError for broken pieces."""
    heard = [arrival for arrival in arrivals if arrival.num_frames]
    if not heard:
        return None
    pieces = [_decode(arrival) for arrival in heard]
    return Sound(np.concatenate(pieces), heard[0].sample_rate_hz)


def _decode(arrival: AudioArrival) -> Samples:
    is_file = arrival.payload[:4] == b"RIFF" or len(arrival.payload) != 2 * arrival.num_channels * arrival.num_frames
    if not is_file:
        values = np.frombuffer(arrival.payload, "<i2").reshape(-1, arrival.num_channels)
        return np.asarray(values.mean(axis=1) / 32768.0, np.float32)
    try:
        samples, _ = soundfile.read(BytesIO(arrival.payload), dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise MediaError(f"a piece of the answer's sound cannot be decoded ({error})") from None
    return np.ascontiguousarray(samples.mean(axis=1), np.float32)
