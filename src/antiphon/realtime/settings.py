"""The settings of a session, and what a `session` object of the wire makes of them."""

from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeVar

from msgspec import UNSET, UnsetType

from antiphon.realtime.voice import VoiceClip
from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.formats import AudioFormat
from antiphon.wire.realtime.json_frame import JsonObject
from antiphon.wire.realtime.session_fields import ParsedSession, SessionFields
from antiphon.wire.realtime.turn_detection import ServerVad

T = TypeVar("T")


class OverlapPolicy(str, Enum):
    LISTEN_ONLY = "listen_only"
    BARGE_IN = "barge_in_on_speech"


@dataclass(frozen=True, kw_only=True)
class ContextWindow:
    """What leaves the model's context when it grows (specification section 9.3). Sizes are tokens and units."""

    mode: str = "basic"
    high_tokens: int = 8000
    low_tokens: int = 6000
    previous_max_tokens: int = 500
    max_units: int = 24


PCM16 = AudioFormat()
DEFAULT_WINDOW = ContextWindow()


@dataclass(frozen=True, kw_only=True)
class SessionSettings:
    """Complete settings. A response that runs keeps the instance it began with."""

    model: str | None = None
    modalities: tuple[str, ...] = ("text", "audio")
    instructions: str | None = None
    initial_user_text: str | None = None
    voice: str | None = None
    reference: VoiceClip | None = None
    input_format: AudioFormat = PCM16
    output_format: AudioFormat = PCM16
    temperature: float = 0.7
    max_response_tokens: int | None = None  # text and codec frames of a whole response; checked after each unit
    max_unit_tokens: int | None = None  # of the Thinker, for each unit; None: the model's 20
    speed: float | None = None
    use_tts_template: bool = True
    idle_timeout_s: float = 300.0
    turn_detection: ServerVad | None = None
    is_detection_set: bool = False  # null was said, rather than nothing
    overlap_policy: OverlapPolicy = OverlapPolicy.LISTEN_ONLY
    overlap_short_ack_ms: int = 700
    overlap_barge_in_ms: int = 1200
    overlap_silence_rms: float = 0.003
    playback_commit_policy: str = "ack_only"
    auto_response: bool = False
    force_listen_count: int = 0
    window: ContextWindow = DEFAULT_WINDOW
    return_stage_metrics: bool = False
    length_penalty: float | None = None
    echo: tuple[tuple[str, object], ...] = ()  # other keys of the client, shown again in the public session

    @property
    def speaks(self) -> bool:
        return "audio" in self.modalities


# Never shown again: secrets, bulk, and what the public session computes itself.
_NOT_ECHOED = {"extra_body", "ref_audio", "tts_ref_audio", "id", "session_id", "object", "type"}
_COPIED = (
    "model",
    "instructions",
    "initial_user_text",
    "voice",
    "temperature",
    "speed",
    "use_tts_template",
    "idle_timeout_s",
    "overlap_short_ack_ms",
    "overlap_barge_in_ms",
    "overlap_silence_rms",
    "force_listen_count",
    "return_stage_metrics",
    "length_penalty",
)


def apply_session(base: SessionSettings, parsed: ParsedSession, reference: VoiceClip | None) -> SessionSettings:
    """*base* changed by what *parsed* says; absent fields stay.

    Raises:
        RealtimeError: `unsupported_turn_detection` where overlap policy and detector contradict each other,
            `invalid_sliding_window_config` where the window's low mark is not below its high one.
    """
    fields = parsed.fields
    given = {name: value for name in _COPIED if (value := getattr(fields, name)) is not UNSET}
    settings = replace(
        base,
        **given,
        reference=reference or base.reference,
        input_format=_format(base.input_format, parsed.input_format, parsed.input_rate_hz),
        output_format=_format(base.output_format, parsed.output_format, parsed.output_rate_hz),
        window=_window(base.window, fields),
        echo=_echo(base.echo, parsed.raw),
    )
    if fields.modalities is not UNSET:
        settings = replace(settings, modalities=tuple(dict.fromkeys(fields.modalities)))
    if fields.tts_enabled is False:
        settings = replace(settings, modalities=("text",))
    if fields.max_unit_tokens is not UNSET:
        limit = fields.max_unit_tokens
        settings = replace(settings, max_unit_tokens=None if isinstance(limit, str) else limit)
    if fields.max_response_tokens is not UNSET:
        limit = fields.max_response_tokens
        settings = replace(settings, max_response_tokens=None if isinstance(limit, str) else limit)
    if fields.auto_response is not UNSET:
        settings = replace(settings, auto_response=fields.auto_response is True)
    return _with_detection(settings, parsed)


def _format(base: AudioFormat, given: AudioFormat | None, rate_hz: int | None) -> AudioFormat:
    """A format without a rate takes the flat one; a new encoding forgets the old one's rate."""
    chosen = given or base
    if chosen.rate_hz is None or given is None:
        rate = rate_hz if rate_hz is not None else chosen.rate_hz
        return AudioFormat(chosen.encoding, rate)
    return chosen


_LOW_SHARE = (3, 4)  # of the high mark, where a client gives one number only


def _window(base: ContextWindow, fields: SessionFields) -> ContextWindow:
    if not isinstance(fields.max_kv_tokens, UnsetType):
        most = fields.max_kv_tokens
        base = replace(base, mode="basic", high_tokens=most, low_tokens=most * _LOW_SHARE[0] // _LOW_SHARE[1])
    window = ContextWindow(
        mode=_given(fields.sliding_window_mode, base.mode),
        high_tokens=_given(fields.basic_window_high_tokens, base.high_tokens),
        low_tokens=_given(fields.basic_window_low_tokens, base.low_tokens),
        previous_max_tokens=_given(fields.context_previous_max_tokens, base.previous_max_tokens),
        max_units=_given(fields.context_max_units, base.max_units),
    )
    if window.low_tokens >= window.high_tokens:
        raise RealtimeError(
            "invalid_sliding_window_config",
            f"basic_window_low_tokens ({window.low_tokens}) must be below the high mark ({window.high_tokens})",
            param="extra_body.basic_window_low_tokens",
        )
    return window


def _given(value: T | UnsetType, otherwise: T) -> T:
    return otherwise if isinstance(value, UnsetType) else value


def _with_detection(settings: SessionSettings, parsed: ParsedSession) -> SessionSettings:
    """The detector chooses the overlap policy; an explicit policy that says otherwise is refused."""
    asked = parsed.fields.overlap_policy
    policy = settings.overlap_policy
    if asked is not UNSET:
        policy = OverlapPolicy.BARGE_IN if asked == OverlapPolicy.BARGE_IN.value else OverlapPolicy.LISTEN_ONLY
    vad = settings.turn_detection
    if parsed.turn_detection is not UNSET:
        vad = parsed.turn_detection
        if asked is UNSET:
            policy = OverlapPolicy.LISTEN_ONLY if vad is None else OverlapPolicy.BARGE_IN
    if (policy is OverlapPolicy.BARGE_IN) != (vad is not None):
        said = "server_vad" if vad is not None else "no server_vad"
        raise RealtimeError(
            "unsupported_turn_detection",
            f"overlap_policy {policy.value} does not go with {said}; barge_in_on_speech and server_vad go together",
            param="overlap_policy",
        )
    return replace(
        settings,
        turn_detection=vad,
        is_detection_set=settings.is_detection_set or parsed.turn_detection is not UNSET,
        overlap_policy=policy,
    )


def _echo(base: tuple[tuple[str, object], ...], raw: JsonObject) -> tuple[tuple[str, object], ...]:
    """Keys of the client, the newest last; an `audio` object is merged over the computed one when it is shown."""
    shown = {key: value for key, value in raw.items() if key not in _NOT_ECHOED}
    return tuple({**dict(base), **shown}.items())
