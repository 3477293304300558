"""The body of `POST /v1/chat/completions`: OpenAI's fields and those of vLLM-Omni, at the root.

Keys that are not listed are accepted, as the reference does. What is listed in `REFUSED` would change the answer and is
not available, so it is refused unless it has its neutral value; what is in `IGNORED` changes nothing by specification.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from antiphon.core.sampling import MAX_STOP_IDS, MAX_STOP_STRINGS
from antiphon.wire.content import Content

AudioFormat = Literal["wav", "pcm", "pcm16", "flac", "mp3", "opus"]
MAX_MESSAGES = 4096


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Stop = Annotated[list[str], BeforeValidator(_as_list)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)


class FunctionCall(_Body):
    name: str
    arguments: str


class ToolCall(_Body):
    """A call that an earlier answer made."""

    id: str | None = None
    type: Literal["function"] = "function"
    function: FunctionCall


class ChatMessage(_Body):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None


class AudioOptions(_Body):
    """How speech is returned. A `voice` is not looked up: the model has none by name, see `ref_audio`."""

    format: str = Field("wav", description="wav, pcm, pcm16 (the same as pcm), flac, mp3 or opus.")
    voice: object = None


class StreamOptions(_Body):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class _Options(BaseModel):
    """Every key is honoured, so an unknown one is a mistake."""

    model_config = ConfigDict(extra="forbid", strict=True)


class TemplateOptions(_Options):
    enable_thinking: bool | None = None
    use_tts_template: bool | None = None


class ProcessorOptions(_Options):
    max_slice_nums: int | None = Field(None, description="Most slices of an image.")
    use_image_id: bool | None = None
    use_audio_in_video: bool | None = None


class VideoOptions(_Options):
    num_frames: int | None = Field(None, ge=1, description="Most frames of a video.")
    fps: float | None = None


class MediaOptions(_Options):
    video: VideoOptions | None = None


class ResponseFormat(_Body):
    type: str


class ChatRequest(_Body):
    model_config = ConfigDict(extra="allow", strict=True, title="ChatCompletionRequest")

    model: str | None = Field(None, description="A served name; may be left out.")
    messages: list[ChatMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    modalities: list[str] | None = Field(None, description='Of "text" and "audio"; both if left out.')
    audio: AudioOptions | None = None
    audio_stream_shape: Literal["vllm-omni", "openai"] | None = Field(
        None,
        description="How streamed speech is written: base64 in `delta.content` with `modality`, or `delta.audio`. "
        "Left out: OpenAI's if `audio.voice` is given, else vLLM-Omni's.",
    )
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    sampling_params_list: list[dict[str, object]] | None = Field(
        None, max_length=3, description="Complete sets for thinker, talker, code2wav, in place of the fields below."
    )
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    min_tokens: int | None = None
    seed: int | None = None
    stop: Stop | None = Field(None, description=f"One string, or at most {MAX_STOP_STRINGS}.")
    stop_token_ids: list[int] | None = Field(None, description=f"At most {MAX_STOP_IDS}.")
    ignore_eos: bool | None = None
    n: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    logit_bias: dict[str, float] | None = None
    response_format: ResponseFormat | None = None
    chat_template: str | None = None
    chat_template_kwargs: TemplateOptions | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high"] | None = Field(
        None, description='"none" writes no thought; anything else lets the model think.'
    )
    mm_processor_kwargs: ProcessorOptions | None = None
    media_io_kwargs: MediaOptions | None = None
    ref_audio: object = Field(None, description="The voice to speak in: a URI of a recording, as a string.")
    return_stage_metrics: object = Field(None, description="true, 1, yes or on: add `metrics`.")
    return_token_ids: bool | None = None
    return_prompt_text: bool | None = None
    request_id: str | None = Field(None, max_length=128, pattern=r"^[A-Za-z0-9._:-]+$")
    extra_body: object = Field(None, description="Only `ref_audio` and `return_stage_metrics` are read from it.")


# Without effect for this model, by specification.
IGNORED = (
    *("user", "store", "metadata", "service_tier", "parallel_tool_calls", "safety_identifier", "prompt_cache_key"),
    *("voice", "speaker", "language", "instructions", "additional_information", "verbosity"),
    *("skip_special_tokens", "spaces_between_special_tokens", "add_special_tokens", "include_stop_str_in_output"),
)

# Field: the values that ask for nothing, and what to do instead.
REFUSED: Mapping[str, tuple[tuple[object, ...], str]] = {
    "n": ((1,), "send the request once for each answer"),
    "logprobs": ((False,), "probabilities are not returned"),
    "top_logprobs": ((0,), "probabilities are not returned"),
    "prompt_logprobs": ((0, False), "probabilities are not returned"),
    "logit_bias": (({},), "use stop_token_ids or sampling penalties"),
    "tools": (([],), "describe the functions in the system message"),
    "functions": (([],), "describe the functions in the system message"),
    "tool_choice": (("none", "auto"), "no tools can be given"),
    "function_call": (("none", "auto"), "no functions can be given"),
    "structured_outputs": (({},), "describe the shape in the prompt"),
    **dict.fromkeys(
        ("guided_json", "guided_regex", "guided_choice", "guided_grammar"), ((), "describe the shape in the prompt")
    ),
    "echo": ((False,), "the prompt is not repeated"),
    "add_generation_prompt": ((True,), "every request is answered"),
    "continue_final_message": ((False,), "a message cannot be continued"),
    "cache_salt": (("",), "prefixes are shared between requests; turn enable_prefix_caching off to keep them apart"),
    "documents": (([],), "put them into a message"),
    "bad_words": (([],), "words cannot be forbidden"),
    "allowed_token_ids": (([],), "the vocabulary cannot be restricted"),
    "use_beam_search": ((False,), "answers are sampled"),
    "length_penalty": ((1, 1.0), "answers are sampled"),
    "best_of": ((1,), "send the request once for each answer"),
    "prediction": ((), "it is not used"),
    "web_search_options": ((), "there is no search"),
    "truncate_prompt_tokens": ((), "shorten the conversation"),
    "kv_transfer_params": (({},), "caches are not handed over"),
    "priority": ((0,), "all requests have the same"),
    "vllm_xargs": (({},), "they are not known here"),
}


def refusals(request: ChatRequest) -> list[tuple[str, str]]:
    """Every field of *request* that cannot be honoured, with what to do instead."""
    given = {
        **request.model_dump(include={"n", "logprobs", "top_logprobs", "logit_bias"}),
        **(request.model_extra or {}),
    }
    found = [
        (name, advice)
        for name, (neutral, advice) in REFUSED.items()
        if given.get(name) is not None and given[name] not in neutral
    ]
    if request.response_format is not None and request.response_format.type != "text":
        found.append(("response_format", "only text can be asked for; describe the shape in the prompt"))
    return found
