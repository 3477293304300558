"""What an append carries to 16 kHz float32: base64, encoding, resampling with state kept inside a turn."""

import binascii
from base64 import b64decode

import numpy as np
from numpy.typing import NDArray

from antiphon.audio.g711 import decode_alaw, decode_ulaw
from antiphon.audio.stream_resampler import StreamResampler
from antiphon.realtime.limits import INPUT_RATE_HZ
from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.formats import AudioFormat, Encoding, parse_input_format, parse_rate

MAX_AUDIO_CHARS = 12 * 2**20
_LINEAR = (Encoding.PCM16, Encoding.FLOAT32)


def append_format(session: AudioFormat, form: object, rate_hz: object) -> AudioFormat:
    """The format of one append: what it says itself, else the session's. The rate is always set.

    Raises:
        RealtimeError: `unsupported_audio_format`, or `bad_event` for a rate that is none.
    """
    given = None if form is None else parse_input_format(form, "format")
    if rate_hz is not None:
        return AudioFormat((given or session).encoding, parse_rate(rate_hz, "sample_rate_hz"))
    if given is None:
        return AudioFormat(session.encoding, session.input_rate_hz)
    # The session's rate speaks for its own kind of encoding only: G.711 beside a 16 kHz session still has 8 kHz.
    if given.rate_hz is None and (
        given.encoding == session.encoding or {given.encoding, session.encoding} <= {*_LINEAR}
    ):
        return AudioFormat(given.encoding, session.input_rate_hz)
    return AudioFormat(given.encoding, given.input_rate_hz)


def decode_samples(audio: str, encoding: Encoding) -> NDArray[np.float32]:
    """Base64 to samples [N] in [−1, 1], at the rate they came. Raises RealtimeError `bad_audio`."""
    if len(audio) > MAX_AUDIO_CHARS:
        raise _bad(f"has {len(audio)} characters; at most {MAX_AUDIO_CHARS} are possible")
    try:
        data = b64decode(audio, validate=True)
    except (binascii.Error, ValueError):
        raise _bad("is not valid base64") from None
    if encoding is Encoding.FLOAT32:
        if len(data) % 4:
            raise _bad(f"has {len(data)} bytes; 32-bit samples have 4 each")
        samples = np.frombuffer(data, "<f4").astype(np.float32)
        if not np.isfinite(samples).all():
            raise _bad("holds NaN or infinity")
        return samples
    if encoding is Encoding.PCM16:
        if len(data) % 2:
            raise _bad(f"has {len(data)} bytes; 16-bit samples have 2 each")
        integers = np.frombuffer(data, "<i2")
    else:
        integers = decode_ulaw(data) if encoding is Encoding.ULAW else decode_alaw(data)
    scaled: NDArray[np.float32] = integers.astype(np.float32) / np.float32(32768)
    return scaled


class InputResampler:
    """Brings a session's input to 16 kHz; a turn keeps one stream, so that joints of appends do not click."""

    def __init__(self) -> None:
        self._stream: StreamResampler | None = None
        self._format: AudioFormat | None = None

    def push(self, samples: NDArray[np.float32], form: AudioFormat) -> NDArray[np.float32]:
        """Convert the next *samples* [N] of *form*.

        Raises:
            RealtimeError: `bad_event` if a float stream changes its rate inside a turn.
        """
        before = self._format
        if before is not None and form != before:
            if form.encoding is Encoding.FLOAT32 and before.encoding is Encoding.FLOAT32:
                raise RealtimeError(
                    "bad_event",
                    f"the turn began with {before.rate_hz} Hz; commit or clear before changing the rate",
                    param="sample_rate_hz",
                )
            held = self.finish()
            return np.concatenate((held, self.push(samples, form)))
        if self._stream is None:
            self._stream = StreamResampler(form.input_rate_hz, INPUT_RATE_HZ)
            self._format = form
        return self._stream.push(samples)

    def finish(self) -> NDArray[np.float32]:
        """End the turn's stream; gives what the resampler withheld."""
        held = np.zeros(0, np.float32) if self._stream is None else self._stream.flush()
        self._stream = self._format = None
        return held


def _bad(reason: str) -> RealtimeError:
    return RealtimeError("bad_audio", f"audio {reason}", param="audio")
