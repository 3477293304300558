"""What a client of OpenBMB's `map.realtime` may send: one class for each frame (specification section 18).

Every key of `session.init` is optional. Unknown keys are left alone, as in the other dialects.
"""

import msgspec
from msgspec import Struct

from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.json_frame import JsonObject


class MapConfig(Struct, frozen=True, kw_only=True):
    length_penalty: float | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    max_kv_tokens: int | None = None
    tts_enabled: bool | None = None
    vision_hd: bool | None = None


class MapVoice(Struct, frozen=True, kw_only=True):
    """Base64, either of an audio file or of bare samples."""

    ref_audio_base64: str | None = None
    tts_ref_audio_base64: str | None = None


class MapPayload(Struct, frozen=True, kw_only=True):
    system_prompt: str | None = None
    config: MapConfig | None = None
    voice: MapVoice | None = None
    max_slice_nums: object = None


class SessionInit(Struct, frozen=True, kw_only=True, tag_field="type", tag="session.init"):
    payload: MapPayload | None = None


class MapInput(Struct, frozen=True, kw_only=True):
    audio: str | None = None
    force_listen: bool = False
    video_frames: object = None


class InputAppend(Struct, frozen=True, kw_only=True, tag_field="type", tag="input.append"):
    input: MapInput


class MapClose(Struct, frozen=True, kw_only=True, tag_field="type", tag="session.close"):
    reason: str | None = None


MapFrame = SessionInit | InputAppend | MapClose
_KINDS: dict[str, type[MapFrame]] = {
    "session.init": SessionInit,
    "input.append": InputAppend,
    "session.close": MapClose,
}


def map_frame(body: JsonObject) -> MapFrame:
    """Read *body*. Raises RealtimeError `bad_event` or `unknown_event`."""
    name = body.get("type")
    if not isinstance(name, str):
        raise RealtimeError("bad_event", "type is missing or no string", param="type")
    if name not in _KINDS:
        raise RealtimeError("unknown_event", f"unknown event type {name!r} in this dialect"[:200], param="type")
    try:
        return msgspec.convert(body, _KINDS[name])
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        param = path.removesuffix("`").lstrip(".") or None
        raise RealtimeError("bad_event", f"{param or name}: {reason}", param=param) from None
