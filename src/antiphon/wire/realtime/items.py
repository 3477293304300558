"""The `item` of `conversation.item.create`: one class for each kind that a conversation takes."""

import msgspec

from antiphon.wire.realtime.errors import RealtimeError
from antiphon.wire.realtime.json_frame import JsonObject

MAX_ID_CHARS = 256
_IMAGE_TYPES = ("input_image", "image", "image_url")
_AUDIO_TYPES = ("input_audio", "audio")


class AudioPart(msgspec.Struct, frozen=True, kw_only=True):
    """Sound inside a user item: base64 as in an append."""

    audio: str
    format: object = None
    sample_rate_hz: object = None
    transcript: str | None = None


class MessageItem(msgspec.Struct, frozen=True, kw_only=True):
    """A message. `content` is kept as it came, for the echo; `text` is its text parts, joined."""

    id: str | None
    role: str
    text: str
    audio: tuple[AudioPart, ...]
    has_image: bool
    content: list[object]


class CallOutputItem(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool answered."""

    id: str | None
    call_id: object
    output: object


def parse_item(item: JsonObject) -> MessageItem | CallOutputItem:
    """Raises RealtimeError `bad_event` with the path of what is wrong."""
    item_id = item.get("id")
    if item_id is not None and not (isinstance(item_id, str) and 0 < len(item_id) <= MAX_ID_CHARS):
        raise _bad("item.id", f"must be a string of 1 to {MAX_ID_CHARS} characters")
    kind = item.get("type", "message")
    if kind == "function_call_output":
        return CallOutputItem(id=item_id, call_id=item.get("call_id"), output=item.get("output"))
    if kind != "message":
        raise _bad("item.type", f"{kind!r}; known: message, function_call_output"[:200])
    role = item.get("role", "user")
    if role not in ("user", "assistant", "system"):
        raise _bad("item.role", f"{role!r}; known: user, assistant, system"[:200])
    content = item.get("content")
    parts = [] if content is None else content
    if not isinstance(parts, list):
        raise _bad("item.content", "must be a list")
    texts, clips, has_image = [], [], False
    for index, part in enumerate(parts):
        path = f"item.content[{index}]"
        if not isinstance(part, dict) or not isinstance(part.get("type"), str):
            raise _bad(path, "must be an object with a type")
        if part["type"] in _AUDIO_TYPES and role == "user":
            clips.append(_audio_part(part, path))
        elif part["type"] in _IMAGE_TYPES:
            has_image = True
        else:
            text = part.get("text", part.get("transcript"))
            if text is not None and not isinstance(text, str):
                raise _bad(f"{path}.text", "must be a string")
            texts.append(text or "")
    return MessageItem(
        id=item_id, role=str(role), text="".join(texts), audio=tuple(clips), has_image=has_image, content=parts
    )


def _audio_part(part: JsonObject, path: str) -> AudioPart:
    try:
        return msgspec.convert(part, AudioPart)
    except msgspec.ValidationError as error:
        raise _bad(path, str(error).partition(" - at")[0]) from None


def _bad(param: str, reason: str) -> RealtimeError:
    return RealtimeError("bad_event", f"{param}: {reason}", param=param)
