"""Speech in pieces for a stream of events, in either of the two shapes."""

from base64 import b64encode

import numpy as np
from numpy.typing import NDArray

from antiphon.audio.formats import SpeechFormat, encode_file, open_stream

_ALIGNED_BYTES = 6  # whole samples, and base64 without padding


class JoinedPieces:
    """One file in base64 pieces that may be decoded one by one, or joined first: only the last can have padding."""

    def __init__(self, form: SpeechFormat, sample_rate_hz: int) -> None:
        self._encoder = open_stream(form, sample_rate_hz)
        self._left = b""

    def push(self, samples: NDArray[np.float32]) -> str:
        content = self._left + self._encoder.push(samples)
        end = len(content) - len(content) % _ALIGNED_BYTES
        self._left = content[end:]
        return b64encode(content[:end]).decode()

    def finish(self) -> str:
        return b64encode(self._left + self._encoder.finish()).decode()


def whole_file(form: SpeechFormat, samples: NDArray[np.float32], sample_rate_hz: int) -> str:
    """Base64 of a complete file."""
    return b64encode(encode_file(form, samples, sample_rate_hz)).decode()
