"""Whether an append is speech, when no server VAD says so (specification section 3.2)."""

import math

import numpy as np
from numpy.typing import NDArray

from antiphon.wire.realtime.client_events import InputAudioAppend

PROBABLE = 0.5


def root_mean_square(samples: NDArray[np.float32]) -> float:
    """Of *samples* [N]; 0 for none."""
    return math.sqrt(float(np.dot(samples, samples)) / len(samples)) if len(samples) else 0.0


def is_speech(event: InputAudioAppend, samples: NDArray[np.float32], silence_rms: float) -> bool:
    """The first hint of the client that is there decides, else the loudness against *silence_rms*."""
    vad = event.vad
    if event.is_speech is not None:
        return event.is_speech
    if vad is not None and vad.is_speech is not None:
        return vad.is_speech
    if vad is not None:
        chance = vad.speech_probability if vad.speech_probability is not None else vad.probability
        if chance is not None:
            return chance >= PROBABLE
    if event.speech_probability is not None:
        return event.speech_probability >= PROBABLE
    threshold = event.overlap_silence_rms
    if threshold is None and vad is not None:
        threshold = vad.silence_rms
    return len(samples) > 0 and root_mean_square(samples) >= (silence_rms if threshold is None else threshold)
