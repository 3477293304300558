"""Audio formats on the wire: their many spellings, and the rates they stand for."""

from dataclasses import dataclass
from enum import Enum

from antiphon.wire.realtime.errors import RealtimeError

MIN_RATE_HZ, MAX_RATE_HZ = 8_000, 192_000
SESSION_RATE_HZ = 16_000
TELEPHONE_RATE_HZ = 8_000
SPEECH_RATE_HZ = 24_000


class Encoding(str, Enum):
    """How samples are written. The value is the protocol's canonical spelling."""

    PCM16 = "pcm16"  # little endian, mono
    FLOAT32 = "pcm_f32le"
    ULAW = "g711_ulaw"
    ALAW = "g711_alaw"
    WAV = "wav"  # output only: every delta is a complete file


_SPELLINGS = {
    **dict.fromkeys(("pcm16", "pcm", "audio/pcm", "audio/pcm16", "pcm_s16le", "s16le"), Encoding.PCM16),
    **dict.fromkeys(("pcm_f32le", "f32le", "audio/pcm_f32le"), Encoding.FLOAT32),
    **dict.fromkeys(
        ("g711_ulaw", "g711-ulaw", "ulaw", "mulaw", "audio/g711_ulaw", "audio/pcmu", "pcmu"), Encoding.ULAW
    ),
    **dict.fromkeys(("g711_alaw", "g711-alaw", "alaw", "audio/g711_alaw", "audio/pcma", "pcma"), Encoding.ALAW),
}
_OUTPUT_SPELLINGS = {
    **{name: kind for name, kind in _SPELLINGS.items() if kind is not Encoding.FLOAT32},
    **dict.fromkeys(("wav", "audio/wav"), Encoding.WAV),
}


@dataclass(frozen=True)
class AudioFormat:
    """One direction of a session. `rate_hz` is None where nobody declared one."""

    encoding: Encoding = Encoding.PCM16
    rate_hz: int | None = None

    @property
    def input_rate_hz(self) -> int:
        """The rate of arriving samples; a telephone codec that declares none has 8 kHz."""
        if self.rate_hz is not None:
            return self.rate_hz
        return TELEPHONE_RATE_HZ if self.encoding in (Encoding.ULAW, Encoding.ALAW) else SESSION_RATE_HZ

    @property
    def output_rate_hz(self) -> int:
        """The rate of speech sent: 24 kHz, except for the telephone codecs."""
        if self.encoding in (Encoding.ULAW, Encoding.ALAW):
            return self.rate_hz or TELEPHONE_RATE_HZ
        return SPEECH_RATE_HZ


def parse_rate(value: object, param: str, code: str = "bad_event") -> int:
    """A sample rate: a whole number, 8,000 to 192,000. `True` and `"16000"` are none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise RealtimeError(code, f"{param} must be a whole number of hertz, not {value!r}"[:200], param=param)
    if not MIN_RATE_HZ <= value <= MAX_RATE_HZ:
        raise RealtimeError(code, f"{param} is {value}; {MIN_RATE_HZ} to {MAX_RATE_HZ} Hz are possible", param=param)
    return int(value)


def parse_input_format(value: object, param: str) -> AudioFormat:
    return _parse(value, param, _SPELLINGS)


def parse_output_format(value: object, param: str) -> AudioFormat:
    return _parse(value, param, _OUTPUT_SPELLINGS)


def _parse(value: object, param: str, spellings: dict[str, Encoding]) -> AudioFormat:
    """A name, or `{type, rate}`. Raises RealtimeError `unsupported_audio_format`."""
    name, rate = value, None
    if isinstance(value, dict):
        name, rate = value.get("type"), value.get("rate")
    if not isinstance(name, str) or name.lower() not in spellings:
        known = ", ".join(sorted({kind.value for kind in spellings.values()}))
        raise RealtimeError("unsupported_audio_format", f"{param}: {name!r}; known: {known}"[:200], param=param)
    rate_hz = None if rate is None else parse_rate(rate, f"{param}.rate")
    return AudioFormat(spellings[name.lower()], rate_hz)
