"""The `response` object of `response.create`: what this model takes per response, and what it refuses."""

from typing import Literal

import msgspec

from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.formats import AudioFormat, parse_output_format
from antiphon.wire.realtime.json_frame import JsonObject

_REFUSED = (
    "instructions",
    "voice",
    "temperature",
    "max_tokens",
    "max_output_tokens",
    "max_response_output_tokens",
    "tools",
    "tool_choice",
)


class ResponseOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Applies to one response only. None: the session's setting."""

    modalities: tuple[str, ...] | None = None
    output_format: AudioFormat | None = None
    metadata: JsonObject | None = None
    max_tokens: int | Literal["inf"] | None = None


def parse_response_options(response: JsonObject | None) -> ResponseOptions:
    """Raises RealtimeError `unsupported_native_response_options`, `unsupported_audio_format` or `bad_event`."""
    if response is None:
        return ResponseOptions()
    audio = response.get("audio")
    out = audio.get("output") if isinstance(audio, dict) else None
    output: JsonObject = out if isinstance(out, dict) else {}
    refused = [name for name in _REFUSED if response.get(name) is not None]
    if output.get("voice") is not None:
        refused.append("audio.output.voice")
    if refused:
        raise RealtimeError(
            "unsupported_native_response_options",
            f"response.{refused[0]} cannot be set for one response of this model",
            param=f"response.{refused[0]}",
        )
    chosen = response.get("modalities") or response.get("output_modalities")
    if chosen is not None and not (isinstance(chosen, list) and chosen and set(map(str, chosen)) <= {"text", "audio"}):
        raise RealtimeError("bad_event", "response.modalities: text, audio or both", param="response.modalities")
    form = output.get("format") or response.get("output_audio_format")
    metadata = response.get("metadata")
    return ResponseOptions(
        modalities=tuple(map(str, chosen)) if isinstance(chosen, list) else None,
        output_format=None if form is None else parse_output_format(form, "response.output_audio_format"),
        metadata=metadata if isinstance(metadata, dict) else None,
    )
