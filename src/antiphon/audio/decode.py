"""Decodes audio inputs: a clip for the Thinker (mono, 16 kHz) and a reference voice (as recorded).

What a file's header claims is never trusted: decoding stops at the limit, and what is present is what counts.
"""

from collections.abc import Iterator
from typing import Any

import av.container
import numpy as np
import soxr
from numpy.typing import NDArray

from antiphon.audio.container import AUDIO_FORMATS, decoded_audio, frame_samples, open_container
from antiphon.audio.source import MediaSource, open_source, source_name
from antiphon.core.errors import MediaError

SAMPLE_RATE_HZ = 16_000
MIN_AUDIO_SAMPLES = 1_600  # 0.1 s: fewer mel frames than ten give the audio encoder not one output row
MAX_AUDIO_S = 300.0  # clips over 30 s are encoded in pieces; five minutes are 3,000 positions of the context
MIN_VOICE_S = 0.5
MAX_VOICE_S = 30.0  # where decoding stops; what the vocoder's buffers take is less, the voice front end checks that
MIN_RATE_HZ, MAX_RATE_HZ = 4_000, 384_000
MAX_CHANNELS = 8
MAX_AMPLITUDE = 1e4  # float files may exceed ±1; beyond this the numbers are no sound


def load_audio(source: MediaSource, *, max_s: float = MAX_AUDIO_S) -> NDArray[np.float32]:
    """Decode *source* to float32 mono [N] at 16 kHz.

    WAV (also with wrong sizes in its header), FLAC, OGG/Opus, MP3, AAC, AIFF and the sound of MP4 and WebM.
    Channels are averaged, the rate is converted by soxr.

    Raises:
        MediaError: not readable, no sound in it, NaN, shorter than 0.1 s or longer than *max_s*.
    """
    name = source_name(source, "audio")
    with open_source(source, "audio") as file, open_container(file, name, AUDIO_FORMATS) as container:
        rate_hz, pieces = decode_pieces(container, name, max_s)
        mono = [piece.mean(axis=0) for piece in pieces]
    samples = np.concatenate(mono) if mono else np.zeros(0, np.float32)
    return prepare_clip(samples, rate_hz, name, max_s=max_s)


def prepare_clip(
    samples: NDArray[Any], rate_hz: float, name: str, *, max_s: float = MAX_AUDIO_S
) -> NDArray[np.float32]:
    """Check an array of mono samples [N] (or [channels, N]) and bring it to float32 mono 16 kHz.

    Integer arrays are scaled by their type's range. Raises MediaError about *name*.
    """
    mono = _as_float(samples, name)
    if mono.ndim == 2:
        if mono.shape[0] > MAX_CHANNELS:
            raise MediaError(f"{name}: has shape {mono.shape}; samples must be [N] or [channels, N]")
        mono = mono.mean(axis=0)
    if mono.ndim != 1:
        raise MediaError(f"{name}: has {mono.ndim} dimensions; samples must be [N] or [channels, N]")
    _check_rate(rate_hz, name)
    duration_s = len(mono) / rate_hz
    _check_samples(mono, name)
    if duration_s > max_s:
        raise MediaError(
            f"{name}: is longer than {max_s:g} s, the most that is accepted (each second takes 10 positions of the "
            "model's context): cut it"
        )
    if rate_hz != SAMPLE_RATE_HZ:
        mono = soxr.resample(mono, rate_hz, SAMPLE_RATE_HZ, quality="HQ")
    if len(mono) < MIN_AUDIO_SAMPLES:
        raise MediaError(
            f"{name}: is {duration_s:.3f} s long; at least {MIN_AUDIO_SAMPLES / SAMPLE_RATE_HZ} s are needed"
        )
    return np.ascontiguousarray(mono, dtype=np.float32)


def load_reference_voice(source: MediaSource) -> tuple[NDArray[np.float32], int]:
    """Decode a reference recording as it is: float32 [channels, N] and its rate in Hz.

    It is neither mixed down nor resampled here: the voice front end does both in its own way, which soxr would change.

    Raises:
        MediaError: as `load_audio`, or shorter than 0.5 s or longer than 30 s.
    """
    name = source_name(source, "reference voice")
    with open_source(source, "reference voice") as file, open_container(file, name, AUDIO_FORMATS) as container:
        rate_hz, pieces = decode_pieces(container, name, MAX_VOICE_S)
        decoded = list(pieces)
    samples = np.concatenate(decoded, axis=1) if decoded else np.zeros((1, 0), np.float32)
    return prepare_voice(samples, rate_hz, name), rate_hz


def prepare_voice(samples: NDArray[Any], rate_hz: int, name: str) -> NDArray[np.float32]:
    """Check a reference recording [channels, N] or [N]; returns float32 [channels, N]. Raises MediaError."""
    voice = np.atleast_2d(_as_float(samples, name))
    if voice.ndim != 2 or voice.shape[0] > MAX_CHANNELS:
        raise MediaError(f"{name}: has shape {voice.shape}; samples must be [N] or [channels, N]")
    _check_rate(rate_hz, name)
    _check_samples(voice, name)
    duration_s = voice.shape[1] / rate_hz
    if not MIN_VOICE_S <= duration_s <= MAX_VOICE_S:
        raise MediaError(
            f"{name}: is {duration_s:.2f} s long; a reference voice must have {MIN_VOICE_S:g} to {MAX_VOICE_S:g} s "
            "(3 to 10 s are best)"
        )
    return np.ascontiguousarray(voice, dtype=np.float32)


def decode_pieces(
    container: av.container.InputContainer, name: str, max_s: float
) -> tuple[int, Iterator[NDArray[np.float32]]]:
    """The rate of the first sound stream and its pieces [channels, N], cut shortly after *max_s*."""
    if not container.streams.audio:
        raise MediaError(f"{name}: holds no sound")
    stream = container.streams.audio[0]
    rate_hz, num_channels = stream.rate, stream.channels
    _check_rate(rate_hz, name)
    if not 1 <= num_channels <= MAX_CHANNELS:
        raise MediaError(f"{name}: has {num_channels} channels; at most {MAX_CHANNELS} are accepted")

    def pieces() -> Iterator[NDArray[np.float32]]:
        num_samples = 0
        for frame in decoded_audio(container, stream):
            if frame.sample_rate != rate_hz or frame.layout.nb_channels != num_channels:
                raise MediaError(f"{name}: changes its sample rate or channels midway")
            num_samples += frame.samples
            yield frame_samples(frame)
            if num_samples > max_s * rate_hz + rate_hz:  # one second more, so that the length check sees it is too long
                return

    return rate_hz, pieces()


def _as_float(samples: NDArray[Any], name: str) -> NDArray[np.float32]:
    if np.issubdtype(samples.dtype, np.signedinteger):
        return np.asarray(samples / float(-np.iinfo(samples.dtype).min), dtype=np.float32)
    if not np.issubdtype(samples.dtype, np.floating):
        raise MediaError(f"{name}: samples are {samples.dtype}; they must be floats in [−1, 1] or signed integers")
    return samples.astype(np.float32)


def _check_rate(rate_hz: float, name: str) -> None:
    if not MIN_RATE_HZ <= rate_hz <= MAX_RATE_HZ:
        raise MediaError(f"{name}: its sample rate is {rate_hz:g} Hz; {MIN_RATE_HZ} to {MAX_RATE_HZ} Hz are accepted")


def _check_samples(samples: NDArray[np.float32], name: str) -> None:
    if samples.size == 0:
        raise MediaError(f"{name}: is empty (no samples)")
    if not np.isfinite(samples).all():
        raise MediaError(f"{name}: contains NaN or infinite samples")
    if np.abs(samples).max() > MAX_AMPLITUDE:
        raise MediaError(f"{name}: samples reach {np.abs(samples).max():.3g}; floats must be in [−1, 1]")
