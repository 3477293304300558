"""Whisper log-mel features of 16 kHz audio, offline and as a stream that agrees with the offline rule frame by frame.

Source: model specification, sections 2.5 and 2.7. The floor policy is an argument of every call: in the reference it is
state of one shared extractor, so that offline features there depend on which stream ran last.
"""

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from antiphon.audio.mel_filters import slaney_filters

Samples = NDArray[np.float32]
Mel = NDArray[np.float32]

SAMPLE_RATE_HZ = 16_000
HOP_SAMPLES = 160
PIECE_SAMPLES = 30 * SAMPLE_RATE_HZ  # longer clips are cut into pieces of this length
UNIT_SAMPLES = SAMPLE_RATE_HZ
UNIT_FRAMES = UNIT_SAMPLES // HOP_SAMPLES
FIRST_UNIT_SAMPLES = 16_560  # 1,035 ms: what the first unit of a stream must hold, zeros in front if need be
REDUNDANCY_FRAMES = 2  # 20 ms of context on each side of a duplex unit

_N_FFT = 400
_DYNAMIC_FROM_SAMPLES = 5 * SAMPLE_RATE_HZ
_SLIDE_AT_SAMPLES, _SLIDE_SAMPLES = 30 * SAMPLE_RATE_HZ, 10 * SAMPLE_RATE_HZ


class Floor(Enum):
    """How low a log10 mel value may lie: at −10 only, or also at the loudest value of the same input minus 8."""

    FIXED = "fixed -10"
    DYNAMIC = "dynamic 8"


@lru_cache(maxsize=4)
def _filters(num_bins: int) -> NDArray[np.float64]:
    return slaney_filters(SAMPLE_RATE_HZ, _N_FFT, num_bins, SAMPLE_RATE_HZ / 2)


@lru_cache(maxsize=1)
def _window() -> NDArray[np.float64]:
    window: NDArray[np.float64] = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(_N_FFT) / _N_FFT)
    return window


def log_mel(samples: Samples, *, floor: Floor, num_bins: int = 80) -> Mel:
    """Log-mel of the whole input, not padded: [N] in [−1, 1] → float32 [num_bins, N // 160].

    Centred frames of 25 ms every 10 ms; both ends of the input are reflected, the last frame is dropped.
    """
    num_frames = len(samples) // HOP_SAMPLES
    if num_frames == 0:
        return np.zeros((num_bins, 0), dtype=np.float32)
    padded = np.pad(samples.astype(np.float64), _N_FFT // 2, mode="reflect")
    frames = sliding_window_view(padded, _N_FFT)[::HOP_SAMPLES][:num_frames]
    spectrum = np.fft.rfft(frames * _window(), axis=-1)
    power = spectrum.real**2 + spectrum.imag**2
    log = np.log10(np.maximum(_filters(num_bins) @ power.T, 1e-10))
    if floor is Floor.DYNAMIC:
        log = np.maximum(log, log.max() - 8.0)
    mel: Mel = ((log + 4.0) / 4.0).astype(np.float32)
    return mel


def offline_mels(samples: Samples, *, floor: Floor = Floor.DYNAMIC, num_bins: int = 80) -> list[Mel]:
    """Features of a complete clip: one [num_bins, ceil(n / 160)] for each of its pieces of up to 30 s.

    The rule pads each piece with zeros to 30 s. Frames that lie in the zeros altogether are at the floor and change
    nothing, so only the two that still reach into the clip are computed beyond its own.
    """
    mels = []
    for start in range(0, len(samples), PIECE_SAMPLES):
        piece = samples[start : start + PIECE_SAMPLES]
        num_frames = -(-len(piece) // HOP_SAMPLES)
        padded_len = min(PIECE_SAMPLES, (num_frames + 2) * HOP_SAMPLES)
        padded = np.pad(piece, (0, padded_len - len(piece)))
        mels.append(log_mel(padded, floor=floor, num_bins=num_bins)[:, :num_frames])
    return mels


def pad_first_unit(samples: Samples) -> Samples:
    """Zeros in front of a stream's first samples until they fill the first unit; longer input is left alone."""
    return np.pad(samples, (max(0, FIRST_UNIT_SAMPLES - len(samples)), 0))


class UnitSamples:
    """Cuts packets of any size into a duplex stream's units: 16,480 samples first, 16,000 after that.

    The first unit is filled up to 16,560 samples with zeros in front and consumes a whole number of hops of them, so
    that one-second packets leave a carry of 80 samples for ever and every later unit finds its 16,000.
    """

    def __init__(self) -> None:
        self._pending: Samples = np.zeros(0, dtype=np.float32)
        self._is_first = True

    def __len__(self) -> int:
        """Samples that wait."""
        return len(self._pending)

    @property
    def required(self) -> int:
        """Samples the next unit consumes; zeros stand in for what the first one lacks."""
        return FIRST_UNIT_SAMPLES // HOP_SAMPLES * HOP_SAMPLES if self._is_first else UNIT_SAMPLES

    def append(self, samples: Samples) -> None:
        self._pending = np.concatenate((self._pending, samples.astype(np.float32)))

    def take(self) -> Samples | None:
        """The next unit's samples, or None if too few wait. Surplus samples wait for the unit after it."""
        if self._is_first:
            self._pending = pad_first_unit(self._pending)
        required = self.required
        if len(self._pending) < required:
            return None
        unit, self._pending = self._pending[:required], self._pending[required:]
        self._is_first = False
        return unit

    def clear(self) -> None:
        self._pending, self._is_first = np.zeros(0, dtype=np.float32), True


@dataclass(frozen=True)
class MelChunk:
    """What one push emitted, and the stream's books. Frame numbers without "buffer" count from the stream's start."""

    mel: Mel  # [num_bins, prefix + core + suffix]
    prefix_frames: int
    suffix_frames: int
    core_start: int
    core_end: int
    floor: Floor
    buffer_start_frame: int
    buffer_samples: int
    buffer_frames: int
    stable_frames: int  # frames of the buffer whose window lies inside it

    @property
    def trim_front(self) -> int:
        """Frames to cut from the encoder's convolution output (it halves the rate) before attention."""
        return (self.prefix_frames + 1) // 2

    @property
    def trim_end(self) -> int:
        return (self.suffix_frames + 1) // 2


class StreamingMel:
    """Emits 100 new frames per unit, each computed over the whole recent waveform ("exact" mode).

    Every push recomputes the log-mel of the buffer, reflected at both of its ends, and emits frames whose window lies
    inside it. Duplex streams take `REDUNDANCY_FRAMES` of context on both sides, simplex streams none.
    """

    def __init__(self, *, redundancy_frames: int, num_bins: int = 80) -> None:
        self._redundancy_frames = redundancy_frames
        self._num_bins = num_bins
        self.reset()

    def reset(self) -> None:
        self._buffer: Samples = np.zeros(0, dtype=np.float32)
        self._buffer_start_frame = 0
        self._emitted_frames = 0

    def push(self, samples: Samples, *, is_last: bool = False) -> MelChunk:
        """Append *samples* and emit the next unit's frames; an empty chunk if they are not all stable yet.

        With *is_last* the rest of the buffer is emitted as it is, reflected end included.
        """
        self._append(samples)
        floor = Floor.FIXED if len(self._buffer) < _DYNAMIC_FROM_SAMPLES else Floor.DYNAMIC
        mel = log_mel(self._buffer, floor=floor, num_bins=self._num_bins)
        num_frames = mel.shape[1]
        stable_frames = min(num_frames, max(0, (len(self._buffer) - _N_FFT // 2) // HOP_SAMPLES + 1))
        core_start = core_end = self._emitted_frames - self._buffer_start_frame
        prefix, suffix = min(self._redundancy_frames, core_start), 0
        if is_last:
            core_end = max(core_start, num_frames)
        elif core_start + UNIT_FRAMES + self._redundancy_frames <= stable_frames:
            core_end, suffix = core_start + UNIT_FRAMES, self._redundancy_frames
        if core_end == core_start:
            prefix = 0
        self._emitted_frames = core_end + self._buffer_start_frame
        return MelChunk(
            mel=mel[:, core_start - prefix : core_end + suffix],
            prefix_frames=prefix,
            suffix_frames=suffix,
            core_start=core_start + self._buffer_start_frame,
            core_end=self._emitted_frames,
            floor=floor,
            buffer_start_frame=self._buffer_start_frame,
            buffer_samples=len(self._buffer),
            buffer_frames=num_frames,
            stable_frames=stable_frames,
        )

    def _append(self, samples: Samples) -> None:
        self._buffer = np.concatenate((self._buffer, samples.astype(np.float32)))
        if len(self._buffer) >= _SLIDE_AT_SAMPLES:
            self._buffer = self._buffer[_SLIDE_SAMPLES:]
            self._buffer_start_frame += _SLIDE_SAMPLES // HOP_SAMPLES
