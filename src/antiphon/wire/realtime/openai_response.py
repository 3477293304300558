"""The `response` object of `response.create` in OpenAI's dialect (specification section 17.2)."""

import msgspec

from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.formats import AudioFormat, parse_output_format
from antiphon.wire.realtime.json_frame import JsonObject
from antiphon.wire.realtime.openai_session import modalities, output_format, token_limit
from antiphon.wire.realtime.response_options import ResponseOptions

# Accepted without effect, as in a session: frameworks send them with every request.
IGNORED = (
    "conversation",
    "parallel_tool_calls",
    "prompt",
    "reasoning",
    "temperature",
    "tool_choice",
    "tools",
)
_KNOWN = {*IGNORED, "audio", "input", "instructions", "max_output_tokens", "metadata", "output_modalities"}


class ResponseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of one response. `ignored` are the fields that have no effect."""

    options: ResponseOptions
    instructions: str | None = None
    ignored: tuple[str, ...] = ()


def parse_openai_response(response: JsonObject | None) -> ResponseRequest:
    """Raises RealtimeError `unsupported_native_response_options`, `unsupported_audio_format` or `bad_event`."""
    if response is None:
        return ResponseRequest(options=ResponseOptions())
    for name in response:
        if name not in _KNOWN:
            raise RealtimeError("bad_event", f"response.{name} is not known in this dialect"[:200], param="response")
    if response.get("input"):
        raise RealtimeError(
            "unsupported_native_response_options",
            "response.input: this model answers its own conversation only",
            param="response.input",
        )
    chosen, instructions = response.get("output_modalities"), response.get("instructions")
    if instructions is not None and not isinstance(instructions, str):
        raise RealtimeError("bad_event", "response.instructions must be a string", param="response.instructions")
    output = _output(response)
    ignored = [name for name in IGNORED if response.get(name) is not None]
    if output.get("voice") is not None:
        ignored.append("audio.output.voice")
    limit, metadata = response.get("max_output_tokens"), response.get("metadata")
    return ResponseRequest(
        options=ResponseOptions(
            modalities=None if chosen is None else tuple(modalities(chosen, "response.output_modalities")),
            output_format=_format(output.get("format")),
            metadata=metadata if isinstance(metadata, dict) else None,
            max_tokens=None if limit is None else token_limit(limit, "response.max_output_tokens"),
        ),
        instructions=instructions,
        ignored=tuple(ignored),
    )


def _output(response: JsonObject) -> JsonObject:
    audio = response.get("audio")
    output = audio.get("output") if isinstance(audio, dict) else None
    return output if isinstance(output, dict) else {}


def _format(form: object) -> AudioFormat | None:
    param = "response.audio.output.format"
    return None if form is None else parse_output_format(output_format(form, param), param)
