"""What callers may hand to `Omni` as a prompt, parsed into messages and options; anything else is refused by name.

A plain string, or `{"prompt": …}`, is a prompt that is already templated if it holds `<|im_start|>`, and otherwise the
text of one user message with its media in front of it. `{"messages": […]}` is a conversation; its text is never markup.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from antiphon.audio.decode import load_audio, load_reference_voice, prepare_clip
from antiphon.audio.image import load_image, prepare_image
from antiphon.core.errors import MediaError, PromptError
from antiphon.pipeline.eager.voices import VoiceSource
from antiphon.prompt.media_parts import has_video, pad_for_merging, picture_parts, video_parts
from antiphon.prompt.messages import ROLES, AudioPart, ImagePart, Message, Part, TextPart

MODALITIES = ("text", "audio")
PROMPT_KEYS = (
    *(
        "prompt",
        "messages",
        "multi_modal_data",
        "modalities",
        "mm_processor_kwargs",
        "chat_template_kwargs",
        "ref_audio",
    ),
)
MEDIA_KEYS = ("image", "audio", "video")
PART_TYPES = ("text", "image", "audio", "video")
PROCESSOR_KEYS = ("max_slice_nums", "use_image_id", "use_audio_in_video")
TEMPLATE_KEYS = ("enable_thinking", "use_tts_template")

_TEMPLATED = "<|im_start|>"
_MARKS = re.compile(r"\(?<(image|audio|video)>\./</\1>\)?")

MessageInput = Mapping[str, object]
PromptInput = str | Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class ParsedPrompt:
    """One request's prompt with its media decoded."""

    messages: tuple[Message, ...]
    is_templated: bool  # one message whose text parts are markup, to be used as they are
    wants_text: bool
    wants_audio: bool
    max_slices: int | None
    use_image_id: bool | None
    enable_thinking: bool | None
    use_tts_template: bool | None  # None: whether audio is wanted
    voice: VoiceSource | None


@dataclass(frozen=True)
class _MediaOptions:
    use_audio_in_video: bool


def parse_prompt(prompt: PromptInput) -> ParsedPrompt:
    """Parse one prompt and decode its media.

    Raises:
        PromptError: an unknown key, role, part type or modality, a missing or doubled one, or media that do not fit the
            placeholders of a templated prompt.
        MediaError: media that cannot be used.
    """
    fields: Mapping[str, object] = {"prompt": prompt} if isinstance(prompt, str) else prompt
    if not isinstance(fields, Mapping):
        raise PromptError(f"a prompt is {type(prompt).__name__}; it must be a string or a dict")
    _known(fields, PROMPT_KEYS, "prompt")
    if ("prompt" in fields) == ("messages" in fields):
        raise PromptError("a prompt dict needs either 'prompt' or 'messages'")
    processor = _mapping(fields, "mm_processor_kwargs", PROCESSOR_KEYS)
    switches = _mapping(fields, "chat_template_kwargs", TEMPLATE_KEYS)
    options = _MediaOptions(use_audio_in_video=_flag(processor, "use_audio_in_video") is not False)
    wanted = _modalities(fields.get("modalities"))
    messages, is_templated = _conversation(fields, options)
    image_id = _flag(processor, "use_image_id")
    return ParsedPrompt(
        messages=tuple(pad_for_merging(message) for message in messages),
        is_templated=is_templated,
        wants_text="text" in wanted,
        wants_audio="audio" in wanted,
        max_slices=_max_slices(processor),
        # The checkpoint was shown videos without image numbers.
        use_image_id=False if image_id is None and has_video(messages) else image_id,
        enable_thinking=_flag(switches, "enable_thinking"),
        use_tts_template=_flag(switches, "use_tts_template"),
        voice=_voice(fields.get("ref_audio")),
    )


def _conversation(fields: Mapping[str, object], options: _MediaOptions) -> tuple[tuple[Message, ...], bool]:
    media = _mapping(fields, "multi_modal_data", MEDIA_KEYS)
    if "messages" in fields:
        if media:
            raise PromptError("multi_modal_data goes with 'prompt'; in 'messages' media are parts of a message")
        return _messages(fields["messages"], options), False
    text = fields["prompt"]
    if not isinstance(text, str):
        raise PromptError(f"'prompt' is {type(text).__name__}; it must be a string")
    _unicode(text)
    groups: dict[str, list[tuple[Part, ...]]] = {
        kind: [_media_part(kind, value, options) for value in entries_of(kind, media.get(kind))] for kind in MEDIA_KEYS
    }
    if _TEMPLATED in text:
        return (Message("user", _place_media(text, groups)),), True
    if not text.strip() and not any(groups.values()):
        raise PromptError("the prompt is empty")
    parts = tuple(part for kind in MEDIA_KEYS for group in groups[kind] for part in group)
    return (Message("user", (*parts, TextPart(text))),), False


def _place_media(text: str, groups: dict[str, list[tuple[Part, ...]]]) -> tuple[Part, ...]:
    """Put each kind's media at its placeholders, in order."""
    waiting = {kind: list(parts) for kind, parts in groups.items()}
    placed: list[Part] = []
    end = 0
    for mark in _MARKS.finditer(text):
        kind = mark.group(1)
        if not waiting[kind]:
            count = len(groups[kind])
            raise PromptError(f"the prompt has more {kind} placeholders than multi_modal_data has entries ({count})")
        placed += [TextPart(text[end : mark.start()]), *waiting[kind].pop(0)]
        end = mark.end()
    left = [kind for kind in MEDIA_KEYS if waiting[kind]]
    if left:
        raise PromptError(
            f"multi_modal_data has more entries for {left[0]!r} than the prompt has placeholders "
            f"(<{left[0]}>./</{left[0]}>)"
        )
    return (*placed, TextPart(text[end:]))


def _messages(value: object, options: _MediaOptions) -> tuple[Message, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise PromptError("'messages' must be a list of at least one message")
    messages = tuple(_message(index, message, options) for index, message in enumerate(value))
    if all(message.role == "system" for message in messages):
        raise PromptError("'messages' has no user message to answer")
    return messages


def _message(index: int, value: object, options: _MediaOptions) -> Message:
    where = f"messages[{index}]"
    if not isinstance(value, Mapping):
        raise PromptError(f"{where} is {type(value).__name__}; it must be a dict with 'role' and 'content'")
    _known(value, ("role", "content"), where)
    role, content = value.get("role"), value.get("content")
    if role not in ROLES:
        raise PromptError(f"{where}: role is {role!r}; known: {', '.join(ROLES)}")
    assert isinstance(role, str)
    if isinstance(content, str):
        return Message(role, (TextPart(_unicode(content)),))
    if not isinstance(content, Sequence) or not content:
        raise PromptError(f"{where}: content must be a string or a list of at least one part")
    parts: list[Part] = []
    for place, part in enumerate(content):
        inner = f"{where}.content[{place}]"
        if isinstance(part, str):
            parts.append(TextPart(_unicode(part)))
            continue
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind not in PART_TYPES:
            raise PromptError(f"{inner}: type is {kind!r}; known: {', '.join(PART_TYPES)}")
        _known(part, ("type", kind), inner)
        if kind not in part:
            raise PromptError(f"{inner}: key {kind!r} is missing")
        parts += _text_part(part[kind], inner) if kind == "text" else _media_part(kind, part[kind], options)
    return Message(role, tuple(parts))


def _text_part(value: object, where: str) -> tuple[Part, ...]:
    if not isinstance(value, str):
        raise PromptError(f"{where}: text is {type(value).__name__}; it must be a string")
    return (TextPart(_unicode(value)),)


def _unicode(text: str) -> str:
    """*text*, unless it holds bytes that are no text (half a surrogate pair, as a command line may bring)."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise PromptError(f"the text is not valid Unicode at character {error.start}") from None
    return text


def entries_of(kind: str, value: object) -> list[object]:
    """The entries of one kind in `multi_modal_data`: one medium, or a list of them."""
    if value is None:
        return []
    if isinstance(value, list) and not (kind == "video" and value and isinstance(value[0], (Image.Image, np.ndarray))):
        return list(value)
    return [value]


def _media_part(kind: str, value: object, options: _MediaOptions) -> tuple[Part, ...]:
    if kind == "image":
        return (ImagePart(_image(value)),)
    if kind == "audio":
        return (AudioPart(_audio(value)),)
    return _video(value, options)


def _image(value: object) -> Image.Image:
    if isinstance(value, Image.Image):
        return prepare_image(value, "image")
    if isinstance(value, np.ndarray):
        if value.dtype != np.uint8 or value.ndim not in (2, 3):
            raise MediaError(f"image: an array must be uint8 [H, W] or [H, W, 3], not {value.dtype} {value.shape}")
        return prepare_image(Image.fromarray(value), "image")
    if isinstance(value, (str, os.PathLike, bytes)):
        return load_image(value)
    raise MediaError(f"image: is {type(value).__name__}; give a path, bytes, a PIL image or a uint8 array")


def _audio(value: object) -> np.ndarray:
    if isinstance(value, (str, os.PathLike, bytes)):
        return load_audio(value)
    if isinstance(value, (tuple, list)) and len(value) == 2:
        samples, rate_hz = value
        if isinstance(rate_hz, (int, float)) and not isinstance(rate_hz, bool):
            return prepare_clip(np.asarray(samples), rate_hz, "audio")
    raise MediaError(f"audio: is {type(value).__name__}; give a path, bytes, or (samples, rate in Hz)")


def _video(value: object, options: _MediaOptions) -> tuple[Part, ...]:
    """A video's frames and sound, woven. Frames given as pictures are one second apart and have no sound."""
    if isinstance(value, (str, os.PathLike, bytes)):
        return video_parts(value, with_audio=options.use_audio_in_video)
    if isinstance(value, (Sequence, np.ndarray)) and len(value):
        return picture_parts([_image(picture) for picture in value])
    raise MediaError(f"video: is {type(value).__name__}; give a path, bytes, or a list of frames")


def _voice(value: object) -> VoiceSource | None:
    if value is None:
        return None
    if isinstance(value, (str, os.PathLike, bytes)):
        return load_reference_voice(value)
    if isinstance(value, (tuple, list)) and len(value) == 2:
        samples, rate_hz = value
        if isinstance(rate_hz, int) and not isinstance(rate_hz, bool):
            return (np.asarray(samples), rate_hz)
    raise MediaError(f"ref_audio: is {type(value).__name__}; give a path, bytes, or (samples, rate in Hz)")


def _modalities(value: object) -> tuple[str, ...]:
    if value is None:
        return MODALITIES
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise PromptError(f"modalities is {value!r}; it must be a list out of {', '.join(MODALITIES)}")
    for name in value:
        if name not in MODALITIES:
            raise PromptError(f"modalities holds {name!r}; known: {', '.join(MODALITIES)}")
    return tuple(value)


def _max_slices(processor: Mapping[str, object]) -> int | None:
    value = processor.get("max_slice_nums")
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise PromptError(f"max_slice_nums is {value!r}; it must be a whole number from 1")
    return value


def _flag(values: Mapping[str, object], key: str) -> bool | None:
    value = values.get(key)
    if value is not None and not isinstance(value, bool):
        raise PromptError(f"{key} is {value!r}; it must be true or false")
    return value


def _mapping(fields: Mapping[str, object], key: str, known: Sequence[str]) -> Mapping[str, object]:
    value = fields.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise PromptError(f"{key} is {type(value).__name__}; it must be a dict")
    _known(value, known, key)
    return value


def _known(fields: Mapping[str, object], known: Sequence[str], where: str) -> None:
    for key in fields:
        if key not in known:
            raise PromptError(f"{where}: unknown key {key!r}; known: {', '.join(known)}")
