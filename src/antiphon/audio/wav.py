"""Writes mono 16-bit WAV files piece by piece; a file appears under its name only when it is complete."""

import os
import wave
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

SPEECH_RATE_HZ = 24_000


def to_pcm16(samples: NDArray[np.float32]) -> NDArray[np.int16]:
    """Clip *samples* [N] to ±1 and scale to 16 bits, rounding towards zero as the reference does."""
    scaled: NDArray[np.int16] = (np.clip(samples, -1.0, 1.0) * 32767.0).astype("<i2")
    return scaled


class WavWriter:
    """A WAV file under construction, to be used in a `with` block.

    Samples go to `NAME.part`, which is renamed on success and deleted when the block is left by an exception: nothing
    half-written ever carries the name, and an older file of that name stays until then.
    """

    def __init__(self, path: Path, sample_rate_hz: int = SPEECH_RATE_HZ) -> None:
        self.path = path
        self.sample_rate_hz = sample_rate_hz
        self.num_samples = 0
        self._part = path.with_name(f"{path.name}.part")
        self._wave: wave.Wave_write | None = None

    @property
    def duration_s(self) -> float:
        return self.num_samples / self.sample_rate_hz

    def __enter__(self) -> "WavWriter":
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._wave = wave.open(str(self._part), "wb")
        self._wave.setnchannels(1)
        self._wave.setsampwidth(2)
        self._wave.setframerate(self.sample_rate_hz)
        return self

    def write(self, samples: NDArray[np.float32]) -> None:
        """Append *samples*, float32 [N] in [−1, 1]."""
        assert self._wave is not None
        self._wave.writeframes(to_pcm16(samples).tobytes())
        self.num_samples += len(samples)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._wave is not None
        try:
            self._wave.close()
            if kind is None:
                os.replace(self._part, self.path)
        finally:
            with suppress(FileNotFoundError):
                self._part.unlink()
