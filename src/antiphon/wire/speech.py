"""The body of `POST /v1/audio/speech`: a text to be spoken as it is."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

MAX_INPUT_CHARS = 16_384


class SpeechRequest(BaseModel):
    """OpenAI's fields, and `ref_audio`."""

    model_config = ConfigDict(extra="allow", strict=True)

    model: str | None = None
    input: str = Field(min_length=1, max_length=MAX_INPUT_CHARS)
    voice: object = Field(None, description="The model has no voices by name: any value gives the default voice.")
    instructions: str | None = Field(None, max_length=4096, description="Accepted, without effect.")
    response_format: Literal["wav", "pcm", "flac", "mp3", "opus"] = Field("wav")
    speed: float | None = Field(None, description="Only 1 is possible.")
    stream_format: Literal["audio", "sse"] | None = Field(None, description="`sse`: events with base64 audio.")
    stream: bool | None = Field(None, description="Accepted: the answer is always sent as it is made.")
    ref_audio: object = Field(None, description="The voice to speak in: a URI of a recording, as a string.")
    seed: int | None = None
    max_new_tokens: int | None = Field(None, description="Most codec frames, 40 ms of speech each.")


class SpeechDelta(BaseModel):
    type: Literal["speech.audio.delta"] = "speech.audio.delta"
    audio: str


class SpeechUsage(BaseModel):
    input_tokens: int
    output_tokens: int
    total_tokens: int


class SpeechDone(BaseModel):
    type: Literal["speech.audio.done"] = "speech.audio.done"
    usage: SpeechUsage
