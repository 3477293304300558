"""What a client asks a session to be, and how hard it tries to keep it."""

import random
from dataclasses import dataclass, field, replace

from antiphon.core.errors import ConfigError
from antiphon.wire.realtime.json_frame import JsonObject

PCM16 = "pcm16"
FLOAT32 = "pcm_f32le"
_BYTES = {PCM16: 2, FLOAT32: 4, "g711_ulaw": 1, "g711_alaw": 1}


@dataclass(frozen=True)
class AudioFormat:
    """Mono samples on the wire."""

    encoding: str
    sample_rate_hz: int

    @property
    def bytes_per_sample(self) -> int:
        """Raises ConfigError for an encoding that is not known."""
        if self.encoding not in _BYTES:
            raise ConfigError(f"audio encoding {self.encoding!r} is unknown; known: {', '.join(_BYTES)}")
        return _BYTES[self.encoding]

    def duration_ms(self, byte_count: int) -> float:
        return byte_count / self.bytes_per_sample / self.sample_rate_hz * 1000

    def byte_count(self, duration_ms: float) -> int:
        """Of whole samples."""
        return round(duration_ms * self.sample_rate_hz / 1000) * self.bytes_per_sample


INPUT_FORMAT = AudioFormat(PCM16, 16_000)
OUTPUT_FORMAT = AudioFormat(PCM16, 24_000)


@dataclass(kw_only=True)
class SessionConfig:
    """A session, before it is opened; None leaves a field to the server.

    Mutable, as callers of vLLM-Omni's client fill it in step by step. It is read once, when the session opens.

    Attributes:
        ref_audio: data URL of a reference voice.
        auto_response: the model decides by itself when to speak.
    """

    modalities: tuple[str, ...] = ("audio", "text")
    input_audio: AudioFormat = INPUT_FORMAT
    output_audio: AudioFormat = OUTPUT_FORMAT
    instructions: str | None = None
    ref_audio: str | None = None
    voice: str | None = None
    auto_response: bool = True
    temperature: float | None = None
    overlap_policy: str | None = None
    playback_commit_policy: str | None = None
    turn_detection: JsonObject | None = None
    idle_timeout_s: float | None = None
    extra_body: JsonObject = field(default_factory=dict)

    def to_session_payload(self, *, model: str | None) -> JsonObject:
        """The `session` object of `session.update`."""
        payload: JsonObject = {} if model is None else {"model": model}
        payload |= {
            "modalities": list(self.modalities),
            "input_audio_format": self.input_audio.encoding,
            "output_audio_format": self.output_audio.encoding,
            "sample_rate_hz": self.input_audio.sample_rate_hz,
            "audio": {
                "input": {"sample_rate_hz": self.input_audio.sample_rate_hz},
                "output": {"sample_rate_hz": self.output_audio.sample_rate_hz},
            },
            "turn_detection": self.turn_detection,
        }
        optional: JsonObject = {
            "instructions": self.instructions,
            "ref_audio": self.ref_audio,
            "voice": self.voice,
            "temperature": self.temperature,
            "overlap_policy": self.overlap_policy,
            "playback_commit_policy": self.playback_commit_policy,
            "idle_timeout_s": self.idle_timeout_s,
        }
        payload |= {name: value for name, value in optional.items() if value is not None}
        payload["extra_body"] = {"auto_response": self.auto_response, **self.extra_body}
        return payload


def create_duplex_session_config(*, ref_audio: str | None = None, **overrides: object) -> SessionConfig:
    """The preset for MiniCPM-o 4.5: the model yields by itself, and only what was heard counts as said.

    Raises:
        ConfigError: an override names no field of `SessionConfig`.
    """
    extra = overrides.pop("extra_body", None)
    preset = SessionConfig(
        ref_audio=ref_audio,
        overlap_policy="listen_only",
        playback_commit_policy="ack_only",
        extra_body={"force_listen_count": 0, **(extra if isinstance(extra, dict) else {})},
    )
    try:
        return replace(preset, **overrides)  # type: ignore[arg-type]  # replace checks the names, not the types
    except TypeError as error:
        raise ConfigError(f"the session config cannot be made: {error}") from None


@dataclass(frozen=True)
class ReconnectPolicy:
    """How often a lost connection is tried again. `backoff_s`: the shortest wait, and the longest."""

    max_attempts: int = 5
    backoff_s: tuple[float, float] = (0.25, 4.0)

    def delay(self, attempt: int, generator: random.Random | None = None) -> float:
        """Seconds before *attempt* (from 0): drawn evenly between the shortest wait and one that doubles."""
        low, high = self.backoff_s
        draw = (generator or random).uniform
        return draw(low, max(low, min(high, low * 2.0**attempt)))
