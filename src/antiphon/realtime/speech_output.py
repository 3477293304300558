"""Speech samples to the bytes of a delta, in the format that the client asked for."""

import io
import wave
from base64 import b64encode

import numpy as np
from numpy.typing import NDArray

from antiphon.audio.g711 import encode_alaw, encode_ulaw
from antiphon.audio.stream_resampler import StreamResampler
from antiphon.audio.wav import to_pcm16
from antiphon.realtime.limits import SPEECH_RATE_HZ
from antiphon.wire.realtime.formats import AudioFormat, Encoding


class SpeechEncoder:
    """One response's speech: a resampler for the telephone codecs keeps its state from delta to delta."""

    def __init__(self, form: AudioFormat) -> None:
        self.format = form
        self._resampler = StreamResampler(SPEECH_RATE_HZ, form.output_rate_hz)

    def encode(self, samples: NDArray[np.float32], *, last: bool = False) -> str:
        """Base64 of *samples* [N], 24 kHz; empty where the resampler keeps everything for the next call."""
        if self.format.encoding is Encoding.FLOAT32:
            data = samples.astype("<f4").tobytes()
        elif self.format.encoding in (Encoding.ULAW, Encoding.ALAW):
            pcm = to_pcm16(self._resampler.push(samples, last=last))
            data = encode_ulaw(pcm) if self.format.encoding is Encoding.ULAW else encode_alaw(pcm)
        else:
            data = to_pcm16(samples).tobytes()
            if self.format.encoding is Encoding.WAV and data:
                data = _wav(data)
        return b64encode(data).decode("ascii")


def _wav(pcm: bytes) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(SPEECH_RATE_HZ)
        writer.writeframes(pcm)
    return file.getvalue()
