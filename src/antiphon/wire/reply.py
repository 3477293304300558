"""What `/v1/chat/completions` answers: a completion, or the chunks of one. Keys never set are left out."""

import json
from typing import Literal

from pydantic import BaseModel, Field

Metrics = dict[str, object]


class PromptTokensDetails(BaseModel):
    cached_tokens: int = 0


class CompletionTokensDetails(BaseModel):
    text_tokens: int
    audio_tokens: int = Field(description="Codec frames, 40 ms of speech each; not part of `completion_tokens`.")


class Usage(BaseModel):
    prompt_tokens: int = Field(description="Text and media of the prompt.")
    completion_tokens: int = Field(description="Text tokens.")
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails | None = None
    completion_tokens_details: CompletionTokensDetails | None = None


class AudioMetadata(BaseModel):
    format: str
    sample_rate_hz: int
    frame_count: int = Field(description="Samples, before the codec pads them.")
    channels: int = 1


class Audio(BaseModel):
    id: str
    data: str = Field(description="Base64 of a complete file in the format asked for; raw samples for pcm.")
    expires_at: int
    transcript: str = ""


class AudioDelta(BaseModel):
    """A piece of speech in OpenAI's shape: joined in order, the `data` is base64 of one file."""

    id: str | None = None
    data: str | None = None
    transcript: str | None = None
    expires_at: int | None = None


class Message(BaseModel):
    role: Literal["assistant"] = "assistant"
    content: str | None
    reasoning_content: str | None = None
    audio: Audio | None = None


class Choice(BaseModel):
    index: int = 0
    message: Message
    finish_reason: str
    audio_metadata: AudioMetadata | None = None
    token_ids: list[int] | None = None


class Completion(BaseModel):
    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    prompt_token_ids: list[int] | None = None
    prompt_text: str | None = None
    metrics: Metrics | None = None


class Delta(BaseModel):
    role: Literal["assistant"] | None = None
    content: str | None = None
    reasoning_content: str | None = None
    audio: AudioDelta | None = None


class ChunkChoice(BaseModel):
    index: int = 0
    delta: Delta
    finish_reason: str | None = None
    audio_metadata: AudioMetadata | None = None


class CompletionChunk(BaseModel):
    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChunkChoice]
    modality: Literal["text", "audio"] | None = None
    usage: Usage | None = None
    prompt_token_ids: list[int] | None = None
    metrics: Metrics | None = None


def to_json(reply: Completion | CompletionChunk) -> bytes:
    """JSON of *reply* without the keys that were never set; what a client must always find is always there."""
    document = {"id": reply.id, "object": reply.object, **reply.model_dump(mode="json", exclude_unset=True)}
    for choice in document["choices"]:
        choice.setdefault("index", 0)
        if isinstance(reply, CompletionChunk):
            choice.setdefault("finish_reason", None)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
