"""One text frame to one JSON object, bounded in size and depth before anything looks inside."""

import msgspec

from antiphon.wire.realtime.errors import RealtimeError

MAX_FRAME_BYTES = 15 * 1024 * 1024
MAX_DEPTH = 64

JsonObject = dict[str, object]


def parse_object(frame: str | bytes) -> JsonObject:
    """Read *frame* as a JSON object.

    Raises:
        RealtimeError: `event_too_large`, `invalid_json`, or `bad_event` for JSON that is no object or too deep.
    """
    body = frame.encode() if isinstance(frame, str) else frame
    if len(body) > MAX_FRAME_BYTES:
        raise RealtimeError("event_too_large", f"an event may have {MAX_FRAME_BYTES} bytes; this one has {len(body)}")
    try:
        value = msgspec.json.decode(body)
    except RecursionError:
        raise RealtimeError("bad_event", f"the event is nested deeper than {MAX_DEPTH} levels") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise RealtimeError("invalid_json", "the frame is not valid JSON") from None
    if not isinstance(value, dict):
        raise RealtimeError("bad_event", "an event is a JSON object")
    if _is_deeper(value, MAX_DEPTH):
        raise RealtimeError("bad_event", f"the event is nested deeper than {MAX_DEPTH} levels")
    return value


def _is_deeper(value: object, levels: int) -> bool:
    if isinstance(value, dict):
        return levels == 0 or any(_is_deeper(inner, levels - 1) for inner in value.values())
    if isinstance(value, list):
        return levels == 0 or any(_is_deeper(inner, levels - 1) for inner in value)
    return False
