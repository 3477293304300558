"""The `turn_detection` setting: null, or a server VAD with its thresholds (specification section 14)."""

import msgspec

from antiphon.wire.realtime.errors import RealtimeError

MIN_THRESHOLD = 0.15  # exclusive: the off threshold lies 0.15 below


class ServerVad(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type", tag="server_vad"
):
    """The thresholds of the server's voice activity detector."""

    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500
    min_speech_duration_ms: int = 96
    create_response: bool = True
    interrupt_response: bool = True


def parse_turn_detection(value: object) -> ServerVad | None:
    """Raises RealtimeError `unsupported_turn_detection`."""
    if value is None:
        return None
    if not isinstance(value, dict) or value.get("type") != "server_vad":
        kind = value.get("type") if isinstance(value, dict) else value
        raise _refuse(f"{kind!r}; known: server_vad, or null"[:200])
    try:
        vad = msgspec.convert(value, ServerVad)
    except msgspec.ValidationError as error:
        raise _refuse(str(error)) from None
    if not MIN_THRESHOLD < vad.threshold <= 1:
        raise _refuse(f"threshold is {vad.threshold}; above {MIN_THRESHOLD} up to 1 is possible")
    for name in ("prefix_padding_ms", "silence_duration_ms", "min_speech_duration_ms"):
        if getattr(vad, name) < 0:
            raise _refuse(f"{name} must not be negative")
    if not vad.interrupt_response:
        raise _refuse("interrupt_response must be true: the model always hears the user")
    return vad


def _refuse(reason: str) -> RealtimeError:
    return RealtimeError("unsupported_turn_detection", f"turn_detection: {reason}", param="turn_detection")
