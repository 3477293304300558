"""The `session` object of `session.update`: its aliases resolved, each field typed, absent ones `UNSET`.

Where a value may come from several spellings, the nested one of OpenAI wins over the flat one, and `extra_body` over
both, as specification sections 4.1 and 4.2 say.
"""

from typing import Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType

from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.formats import AudioFormat, parse_input_format, parse_output_format, parse_rate
from antiphon.wire.realtime.json_frame import JsonObject
from antiphon.wire.realtime.turn_detection import ServerVad, parse_turn_detection

MAX_INSTRUCTIONS_CHARS = 32 * 1024
PRIVATE_KEYS = frozenset(
    {
        "duplex_stage_sampling_params",
        "duplex_stage_max_tokens",
        "duplex_stage0_max_tokens",
        "duplex_scheduler_token_id",
        "duplex_vision_tile_pixels",
        "duplex_first_append_context_tokens",
        "ref_audio_data",
        "ref_audio_format",
        "ref_audio_sample_rate_hz",
        "initial_user_text",
    }
)
PRIVATE_PREFIX = "duplex_window_"
_PATH_KEYS = ("ref_audio_path", "tts_ref_audio_path")
# Flat names and their aliases; the first that is present counts.
_ALIASES = {
    "modalities": ("modalities", "output_modalities"),
    "max_unit_tokens": ("max_response_output_tokens", "max_output_tokens", "max_tokens"),
}
_OVERRIDES = (
    "overlap_policy",
    "overlap_short_ack_ms",
    "overlap_barge_in_ms",
    "overlap_silence_rms",
    "playback_commit_policy",
)
_EXTRA = (
    "auto_response",
    "force_listen_count",
    "sliding_window_mode",
    "basic_window_high_tokens",
    "basic_window_low_tokens",
    "context_previous_max_tokens",
    "context_max_units",
    "return_stage_metrics",
    "length_penalty",
    "max_response_tokens",
    "tts_enabled",
    "max_kv_tokens",
)
_WINDOW = {name for name in _EXTRA if name.startswith(("sliding", "basic", "context", "max_kv"))}


class SessionFields(Struct, frozen=True, kw_only=True):
    """What one `session.update` says. Ranges are those of the specification."""

    model: str | UnsetType = UNSET
    modalities: list[Literal["text", "audio"]] | UnsetType = UNSET
    instructions: str | UnsetType = UNSET
    initial_user_text: str | UnsetType = UNSET
    voice: str | UnsetType = UNSET
    ref_audio: str | UnsetType = UNSET
    temperature: float | UnsetType = UNSET
    max_response_tokens: int | Literal["inf"] | UnsetType = UNSET
    max_unit_tokens: int | Literal["inf"] | UnsetType = UNSET
    speed: float | UnsetType = UNSET
    use_tts_template: bool | UnsetType = UNSET
    idle_timeout_s: float | UnsetType = UNSET
    overlap_policy: str | UnsetType = UNSET
    overlap_short_ack_ms: int | UnsetType = UNSET
    overlap_barge_in_ms: int | UnsetType = UNSET
    overlap_silence_rms: float | UnsetType = UNSET
    playback_commit_policy: Literal["ack_only", "commit_all_on_done"] | UnsetType = UNSET
    auto_response: object = UNSET  # only the literal true means it
    force_listen_count: int | UnsetType = UNSET
    sliding_window_mode: Literal["off", "basic", "context"] | UnsetType = UNSET
    basic_window_high_tokens: int | UnsetType = UNSET
    basic_window_low_tokens: int | UnsetType = UNSET
    context_previous_max_tokens: int | UnsetType = UNSET
    context_max_units: int | UnsetType = UNSET
    return_stage_metrics: bool | UnsetType = UNSET
    length_penalty: float | UnsetType = UNSET
    tts_enabled: bool | UnsetType = UNSET
    max_kv_tokens: int | UnsetType = UNSET  # the high mark of a basic window


_POSITIVE = ("max_unit_tokens", "max_response_tokens", "idle_timeout_s", "speed", "length_penalty")
_NOT_NEGATIVE = (
    "temperature",
    "overlap_short_ack_ms",
    "overlap_barge_in_ms",
    "overlap_silence_rms",
    "force_listen_count",
)
_WINDOW_SIZES = (
    "basic_window_high_tokens",
    "basic_window_low_tokens",
    "context_previous_max_tokens",
    "context_max_units",
    "max_kv_tokens",
)


class ParsedSession(Struct, frozen=True, kw_only=True):
    """A `session` object, read. `raw` is what the public session echoes from."""

    fields: SessionFields
    input_format: AudioFormat | None = None
    input_rate_hz: int | None = None
    output_format: AudioFormat | None = None
    output_rate_hz: int | None = None
    turn_detection: ServerVad | UnsetType | None = UNSET
    raw: JsonObject


def parse_session(session: JsonObject) -> ParsedSession:
    """Read *session*, in the order of refusals that section 4.4 gives.

    Raises:
        RealtimeError: `unsupported_audio_format`, `unsupported_turn_detection`, `invalid_duplex_runtime_config`,
            `unsupported_ref_audio_path`, `invalid_sliding_window_config` or `invalid_session_config`.
    """
    audio = _object(session, "audio")
    audio_in, audio_out = _object(audio, "input", "audio.input"), _object(audio, "output", "audio.output")
    extra = _object(session, "extra_body")
    formats = _formats(session, audio_in, audio_out)
    detection = audio_in.get("turn_detection", session.get("turn_detection", UNSET))
    turn_detection = UNSET if detection is UNSET else parse_turn_detection(detection)
    _refuse_private(session, extra)
    return ParsedSession(
        fields=_fields(session, audio_out, extra),
        input_format=formats[0],
        input_rate_hz=formats[1],
        output_format=formats[2],
        output_rate_hz=formats[3],
        turn_detection=turn_detection,
        raw=session,
    )


def _formats(
    session: JsonObject, audio_in: JsonObject, audio_out: JsonObject
) -> tuple[AudioFormat | None, int | None, AudioFormat | None, int | None]:
    into = _first((audio_in, "format"), (session, "input_audio_format"))
    out = _first((audio_out, "format"), (session, "output_audio_format"), (session, "response_format"))
    rate = _first((audio_in, "sample_rate_hz"), (session, "sample_rate_hz"), (session, "sample_rate"))
    out_rate = audio_out.get("sample_rate_hz")
    return (
        None if into is None else parse_input_format(into, "input_audio_format"),
        None if rate is None else parse_rate(rate, "sample_rate_hz", "invalid_session_config"),
        None if out is None else parse_output_format(out, "output_audio_format"),
        None if out_rate is None else parse_rate(out_rate, "audio.output.sample_rate_hz", "invalid_session_config"),
    )


def _refuse_private(session: JsonObject, extra: JsonObject) -> None:
    for key in extra:
        if key in PRIVATE_KEYS or key.startswith(PRIVATE_PREFIX):
            raise RealtimeError(
                "invalid_duplex_runtime_config", f"extra_body.{key} is the server's own", param=f"extra_body.{key}"
            )
    for key in _PATH_KEYS:
        if session.get(key) is not None or extra.get(key) is not None:
            raise RealtimeError(
                "unsupported_ref_audio_path", f"{key}: paths are not read; send ref_audio as a data URL", param=key
            )


def _fields(session: JsonObject, audio_out: JsonObject, extra: JsonObject) -> SessionFields:
    found: JsonObject = {}
    for name in SessionFields.__struct_fields__:
        if name in _EXTRA:
            value = extra.get(name)
        else:
            value = next((session[key] for key in _ALIASES.get(name, (name,)) if session.get(key) is not None), None)
        if value is not None:
            found[name] = value
    for name in ("voice", "speed"):
        if audio_out.get(name) is not None:
            found[name] = audio_out[name]
    for name in _OVERRIDES:
        if extra.get(name) is not None:
            found[name] = extra[name]
    seeded = extra.get("duplex_initial_user_text")
    if "initial_user_text" not in found and seeded is not None:
        found["initial_user_text"] = seeded
    voice = _first((extra, "ref_audio"), (extra, "tts_ref_audio"))
    if "ref_audio" not in found and voice is not None:
        found["ref_audio"] = voice
    try:
        fields = msgspec.convert(found, SessionFields)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$.")
        name = path.removesuffix("`")
        raise _bad(name.partition("[")[0], reason) from None
    _check_ranges(fields)
    return fields


def _check_ranges(fields: SessionFields) -> None:
    for name, value in msgspec.structs.asdict(fields).items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if name in (*_POSITIVE, *_WINDOW_SIZES) and value <= 0:
            raise _bad(name, f"must be greater than 0, not {value}")
        if name in _NOT_NEGATIVE and value < 0:
            raise _bad(name, f"must not be negative, not {value}")
    if isinstance(fields.instructions, str) and len(fields.instructions) > MAX_INSTRUCTIONS_CHARS:
        raise _bad("instructions", f"at most {MAX_INSTRUCTIONS_CHARS} characters are possible")
    if isinstance(fields.modalities, list) and not fields.modalities:
        raise _bad("modalities", "must name text, audio or both")


def _bad(name: str, reason: str) -> RealtimeError:
    code = "invalid_sliding_window_config" if name in _WINDOW else "invalid_session_config"
    return RealtimeError(code, f"{name or 'session'}: {reason}"[:200], param=name or "session")


def _object(parent: JsonObject, key: str, path: str | None = None) -> JsonObject:
    value = parent.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _bad(path or key, "must be an object")
    return value


def _first(*places: tuple[JsonObject, str]) -> object:
    return next((place[key] for place, key in places if place.get(key) is not None), None)
