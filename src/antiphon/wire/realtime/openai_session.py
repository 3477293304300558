"""The `session` object of OpenAI's dialect: to the session's own terms, and back (specification section 17.1).

Nothing that a client may ask for vanishes: it is honoured, refused by name, or stands in `IGNORED`.
"""

from typing import Literal

import msgspec

from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.formats import SPEECH_RATE_HZ, AudioFormat, Encoding, parse_input_format
from antiphon.wire.realtime.json_frame import JsonObject

# Accepted, shown again, without effect: this model has no such thing, and clients send them unasked.
IGNORED = (
    "include",
    "parallel_tool_calls",
    "prompt",
    "reasoning",
    "tool_choice",
    "tools",
    "tracing",
    "truncation",
)
IGNORED_INPUT = ("noise_reduction", "transcription")
_KNOWN = {
    *IGNORED,
    "max_output_tokens",
    "type",
    "object",
    "id",
    "model",
    "instructions",
    "output_modalities",
    "audio",
    "expires_at",
}
_VAD_FIELDS = ("type", "threshold", "prefix_padding_ms", "silence_duration_ms", "create_response", "interrupt_response")
_KEPT = "openai"  # where the public session shows again what was kept
_DEFAULTS: JsonObject = {"tools": [], "tool_choice": "auto", "max_output_tokens": "inf"}


class _Detection(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    create_response: bool = True
    interrupt_response: bool = True


def to_native(session: JsonObject, before: JsonObject) -> JsonObject:
    """*session* in the session's own terms; *before* is what the last update kept.

    Raises:
        RealtimeError: `unsupported_audio_format`, `unsupported_turn_detection` or `invalid_session_config`.
    """
    _refuse_unknown("", session, _KNOWN)
    if session.get("type") not in (None, "realtime"):
        raise _bad("type", f"{session['type']!r}; this endpoint serves realtime sessions")
    audio = _object(session, "audio", "audio")
    _refuse_unknown("audio.", audio, {"input", "output"})
    audio_in, audio_out = _object(audio, "input", "audio.input"), _object(audio, "output", "audio.output")
    _refuse_unknown("audio.input.", audio_in, {*IGNORED_INPUT, "format", "turn_detection"})
    _refuse_unknown("audio.output.", audio_out, {"format", "voice", "speed"})
    native: JsonObject = {key: session[key] for key in ("model", "instructions") if session.get(key) is not None}
    if session.get("output_modalities") is not None:
        native["modalities"] = modalities(session["output_modalities"], "output_modalities")
    if audio_in.get("format") is not None:
        native["input_audio_format"] = _input_format(audio_in["format"])
    if audio_out.get("format") is not None:
        native["output_audio_format"] = output_format(audio_out["format"], "audio.output.format")
    if audio_out.get("speed") not in (None, 1):
        raise _bad("audio.output.speed", f"is {audio_out['speed']!r}; the model has one pace, so only 1 is possible")
    extra: JsonObject = {}
    if session.get("max_output_tokens") is not None:
        extra["max_response_tokens"] = token_limit(session["max_output_tokens"], "max_output_tokens")
    kept: JsonObject = {
        **before,
        **{key: session[key] for key in (*IGNORED, "max_output_tokens") if key in session},
        **{key: audio_in[key] for key in IGNORED_INPUT if key in audio_in},
    }
    if audio_out.get("voice") is not None:
        kept["voice"] = audio_out["voice"]
    if "turn_detection" in audio_in:
        native["turn_detection"], extra["auto_response"] = _detection(audio_in["turn_detection"])
        kept["turn_detection"] = native["turn_detection"] or _semantic(audio_in["turn_detection"])
    native[_KEPT] = kept
    native["extra_body"] = extra
    return native


def kept_of(public: JsonObject) -> JsonObject:
    """What earlier updates kept, from the public session object."""
    kept = public.get(_KEPT)
    return kept if isinstance(kept, dict) else {}


def from_public(public: JsonObject) -> JsonObject:
    """The session object that clients of this dialect are shown."""
    kept = kept_of(public)
    audio = public["audio"]
    assert isinstance(audio, dict)
    speaks = "audio" in _list(public["modalities"])
    return {
        "type": "realtime",
        "object": "realtime.session",
        "id": public["id"],
        "model": public["model"],
        "output_modalities": ["audio"] if speaks else ["text"],
        "instructions": public["instructions"],
        "audio": {
            "input": {
                "format": _shown_format(audio["input"]["format"]),
                "turn_detection": kept.get("turn_detection", {"type": "semantic_vad"}),
                "noise_reduction": kept.get("noise_reduction"),
                "transcription": kept.get("transcription"),
            },
            "output": {
                "format": _shown_format(audio["output"]["format"]),
                "voice": kept.get("voice", "default"),
                "speed": 1.0,
            },
        },
        **{
            key: kept.get(key, _DEFAULTS.get(key))
            for key in (*IGNORED, "max_output_tokens")
            if key in kept or key in _DEFAULTS
        },
    }


def modalities(value: object, param: str) -> list[str]:
    """OpenAI's `["audio"]` is speech with its transcript."""
    if not isinstance(value, list) or not value or not set(map(str, value)) <= {"text", "audio"}:
        raise _bad(param, 'must be ["audio"] or ["text"]')
    return ["text", "audio"] if "audio" in value else ["text"]


def output_format(value: object, param: str) -> JsonObject:
    """Speech leaves as 24 kHz PCM, or as G.711 with 8 kHz."""
    form = parse_input_format(value, param)
    rate = form.output_rate_hz
    if form.encoding is Encoding.FLOAT32 or form.rate_hz not in (None, rate):
        raise RealtimeError(
            "unsupported_audio_format",
            f"{param}: speech is sent as audio/pcm with {SPEECH_RATE_HZ} Hz, audio/pcmu or audio/pcma",
            param=param,
        )
    return {"type": form.encoding.value, "rate": rate}


def _input_format(value: object) -> JsonObject:
    form = parse_input_format(value, "audio.input.format")
    rate = form.rate_hz
    if rate is None:
        rate = SPEECH_RATE_HZ if form.encoding is Encoding.PCM16 else AudioFormat(form.encoding).input_rate_hz
    return {"type": form.encoding.value, "rate": rate}


def token_limit(value: object, param: str) -> int | Literal["inf"]:
    """Of a whole response."""
    if value == "inf":
        return "inf"
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise _bad(param, 'must be a number above 0, or "inf"')
    return value


def _detection(value: object) -> tuple[JsonObject | None, bool]:
    """The server's own detector, and whether the model answers unasked.

    null: the client asks for each response. A semantic detector is the model itself, always listening.
    """
    if value is None:
        return None, False
    try:
        asked = msgspec.convert(value, _Detection)
    except msgspec.ValidationError as error:
        raise _refuse_detection(str(error)) from None
    if asked.type == "semantic_vad":
        if not asked.create_response:
            raise _refuse_detection("create_response false needs server_vad, or null")
        return None, True
    if asked.type != "server_vad":
        raise _refuse_detection(f"{asked.type!r}; known: server_vad, semantic_vad, or null")
    assert isinstance(value, dict)
    vad = {key: value[key] for key in _VAD_FIELDS if value.get(key) is not None}
    return vad, asked.create_response


def _semantic(value: object) -> JsonObject | None:
    return None if value is None else {"type": "semantic_vad"}


def _shown_format(form: JsonObject) -> JsonObject:
    """G.711 has one rate only, which is not said."""
    return form if form["type"] == "audio/pcm" else {"type": form["type"]}


def _refuse_unknown(prefix: str, part: JsonObject, known: set[str]) -> None:
    for key in part:
        if key not in known:
            raise _bad(f"{prefix}{key}", "is not known in this dialect")


def _object(parent: JsonObject, key: str, path: str) -> JsonObject:
    value = parent.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _bad(path, "must be an object")
    return value


def _list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value


def _refuse_detection(reason: str) -> RealtimeError:
    return RealtimeError("unsupported_turn_detection", f"turn_detection: {reason}"[:200], param="turn_detection")


def _bad(param: str, reason: str) -> RealtimeError:
    return RealtimeError("invalid_session_config", f"session.{param}: {reason}"[:200], param=f"session.{param}")
