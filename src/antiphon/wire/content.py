"""The parts of a message: text, and media by URL or inline."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag

AudioInputFormat = Literal["wav", "mp3", "flac", "ogg", "opus", "m4a", "mp4", "aac", "webm"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)


def _as_url(value: object) -> object:
    """The reference also takes the bare URL."""
    return {"url": value} if isinstance(value, str) else value


class MediaUrl(_Part):
    """`data:` with base64, `http:` or `https:` with a public address, `file:` below the folder the operator allows."""

    url: str
    detail: Literal["auto", "low", "high"] | None = Field(None, description="Images only; accepted, without effect.")


Url = Annotated[MediaUrl, BeforeValidator(_as_url)]


class InputAudio(_Part):
    """A clip inline. The container is recognised by its content; `format` must name a known one."""

    data: str = Field(description="Base64 of an audio file.")
    format: AudioInputFormat


class TextContent(_Part):
    type: Literal["text"]
    text: str


class ImageContent(_Part):
    type: Literal["image_url"]
    image_url: Url


class AudioContent(_Part):
    type: Literal["audio_url"]
    audio_url: Url


class InputAudioContent(_Part):
    type: Literal["input_audio"]
    input_audio: InputAudio


class VideoContent(_Part):
    type: Literal["video_url"]
    video_url: Url


ContentPart = Annotated[
    TextContent | ImageContent | AudioContent | InputAudioContent | VideoContent, Field(discriminator="type")
]


def _kind_of_content(value: object) -> str:
    return "string" if isinstance(value, str) else "null" if value is None else "parts"


Content = Annotated[
    Annotated[str, Tag("string")] | Annotated[list[ContentPart], Tag("parts")] | Annotated[None, Tag("null")],
    Discriminator(_kind_of_content),
]
