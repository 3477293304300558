"""What is wrong with the samples themselves: clicks, dropouts, clipping, and how much of a recording is silence.

Speech is full of steps, so a click is looked for in two ways: anywhere, as a single step far beyond those around it; at
the border of two pieces, where a jump of phase may be no larger than a usual step, as a sample that the sound before
does not lead to (linear prediction).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon.evals.speech.sound import Samples, Sound

_WINDOW_S = 0.005  # on either side of a step: about one period of a low voice
_CLICK_RATIO = 10.0  # a step is a click from so many times the usual step around it …
_MIN_STEP = 0.03  # … if it can be heard at all
_PREDICTOR_ORDER = 16
_PREDICTOR_S = 0.02
_SURPRISE_RATIO = 8.0  # the loudest glottal pulses reach 7 in one of a hundred places
_MIN_SURPRISE = 0.02
_BORDER_SAMPLES = 4  # in which a border's click shows
_MIN_DROPOUT_S = 0.005
_LOUD = 0.02  # speech goes on here: −34 dB
_ABRUPT = 0.5  # of the sound's level: closures of the mouth fade, lost pieces do not
_CLIP_LEVEL = 0.95  # the model's own limit is 0.99
_MIN_CLIPPED_RUN = 3
_FRAME_S = 0.02
_SILENCE_DB = -50.0


@dataclass(frozen=True)
class Defects:
    """Of one recording. Positions are seconds into the sound.

    Attributes:
        clicks_s: single steps far beyond those around them.
        border_clicks_s: borders between two pieces at which the sound does not go on as it was.
        dropouts_s: where (position, length) the sound is digital zero between two loud places.
        clipped_share: share of samples in flat runs at full scale.
        silence_share: share of 20 ms frames below −50 dB of full scale.
        longest_pause_s: longest silence between two sounds.
    """

    clicks_s: tuple[float, ...]
    border_clicks_s: tuple[float, ...]
    dropouts_s: tuple[tuple[float, float], ...]
    clipped_share: float
    silence_share: float
    longest_pause_s: float


def find_defects(sound: Sound, borders: Sequence[int] = ()) -> Defects:
    """Look at *sound*; *borders* are the sample numbers at which a new piece begins."""
    samples, rate_hz = sound.samples, sound.rate_hz
    silence_share, longest_pause_s = _silence(samples, rate_hz)
    return Defects(
        clicks_s=tuple(place / rate_hz for place in find_clicks(samples, rate_hz)),
        border_clicks_s=tuple(place / rate_hz for place in borders if is_border_click(samples, place, rate_hz)),
        dropouts_s=tuple((begin / rate_hz, (end - begin) / rate_hz) for begin, end in _dropouts(samples, rate_hz)),
        clipped_share=_clipped_share(samples),
        silence_share=silence_share,
        longest_pause_s=longest_pause_s,
    )


def find_clicks(samples: Samples, rate_hz: int) -> list[int]:
    """Places whose step from the sample before stands out from all steps within 5 ms around it."""
    if len(samples) < 3:
        return []
    steps = np.abs(np.diff(samples.astype(np.float64)))
    reach = max(2, round(_WINDOW_S * rate_hz))
    power = np.concatenate([[0.0], np.cumsum(steps**2)])
    places = np.arange(len(steps))
    low, high = np.maximum(places - reach, 0), np.minimum(places + reach + 1, len(steps))
    # A click's own step is left out of what it is compared with, and the one beside it: an impulse has two.
    inner_low, inner_high = np.maximum(places - 1, 0), np.minimum(places + 2, len(steps))
    around = (power[high] - power[low]) - (power[inner_high] - power[inner_low])
    usual = np.sqrt(np.maximum(around, 0.0) / np.maximum((high - low) - (inner_high - inner_low), 1))
    found = np.flatnonzero((steps > _MIN_STEP) & (steps > _CLICK_RATIO * usual)) + 1
    return [int(place) for index, place in enumerate(found) if index == 0 or place - found[index - 1] > 2]


def is_border_click(samples: Samples, border: int, rate_hz: int) -> bool:
    """Whether the first samples from *border* on are not what the 20 ms before lead to."""
    count = round(_PREDICTOR_S * rate_hz)
    begin, end = border - count - _PREDICTOR_ORDER, border + _BORDER_SAMPLES
    if begin < 0 or end > len(samples):
        return False
    segment = samples[begin:end].astype(np.float64)
    rows = np.lib.stride_tricks.sliding_window_view(segment[:-1], _PREDICTOR_ORDER)
    wanted = segment[_PREDICTOR_ORDER:]
    known, told = rows[:count], wanted[:count]
    # The small diagonal is a floor of noise at −60 dB: a digital silence predicts nothing.
    normal = known.T @ known + 1e-6 * np.eye(_PREDICTOR_ORDER)
    surprise = np.abs(wanted - rows @ np.linalg.solve(normal, known.T @ told))
    usual = np.sqrt((surprise[:count] ** 2).mean()) + 1e-5
    return bool(surprise[count:].max() > max(_MIN_SURPRISE, _SURPRISE_RATIO * usual))


def _dropouts(samples: Samples, rate_hz: int) -> list[tuple[int, int]]:
    """Half-open intervals of digital zeros that cut into loud sound."""
    reach = round(_WINDOW_S * rate_hz)
    found = []
    for begin, end in _runs(samples == 0.0):
        before, after = samples[max(0, begin - reach) : begin], samples[end : end + reach]
        if end - begin < _MIN_DROPOUT_S * rate_hz or not len(before) or not len(after):
            continue
        levels = float(np.sqrt((before**2).mean())), float(np.sqrt((after**2).mean()))
        is_cut = abs(before[-1]) > _ABRUPT * levels[0] or abs(after[0]) > _ABRUPT * levels[1]
        if min(levels) >= _LOUD and is_cut:
            found.append((begin, end))
    return found


def _clipped_share(samples: Samples) -> float:
    loud = np.abs(samples) >= _CLIP_LEVEL
    flat = np.zeros(len(samples), bool)
    flat[1:] = loud[1:] & (samples[1:] == samples[:-1])
    clipped = sum(end - begin + 1 for begin, end in _runs(flat) if end - begin + 1 >= _MIN_CLIPPED_RUN)
    return clipped / max(len(samples), 1)


def _silence(samples: Samples, rate_hz: int) -> tuple[float, float]:
    """Share of silent frames, and the longest silence between two sounds in seconds."""
    size = max(1, round(_FRAME_S * rate_hz))
    count = len(samples) // size
    if not count:
        return 0.0, 0.0
    power = (samples[: count * size].astype(np.float64).reshape(count, size) ** 2).mean(axis=1)
    silent = 10 * np.log10(power + 1e-12) < _SILENCE_DB
    inner = [end - begin for begin, end in _runs(silent) if begin > 0 and end < count]
    return float(silent.mean()), max(inner, default=0) * size / rate_hz


def _runs(flags: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Half-open intervals in which *flags* hold."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(begin), int(end)) for begin, end in zip(edges[::2], edges[1::2], strict=True)]
