"""From the body of a chat request to what the pipeline is asked."""

import secrets
from dataclasses import dataclass
from functools import partial

from antiphon.audio.formats import ALIASES, FORMATS, SpeechFormat
from antiphon.core.errors import PromptError
from antiphon.pipeline.request import GenerationRequest
from antiphon.prompt.chat_prompt import ChatPrompt, build_chat_prompt
from antiphon.prompt.media_parts import has_video
from antiphon.prompt.messages import Message
from antiphon.prompt.video import MAX_MOMENTS
from antiphon.serving.conversation import ConversationReader, DecodePool, MediaRules
from antiphon.serving.errors import BAD_REQUEST, HttpError
from antiphon.serving.served_model import ServedModel
from antiphon.serving.settings import ServeSettings
from antiphon.serving.stage_params import stage_params
from antiphon.serving.voices import VoiceReader
from antiphon.wire.chat import ChatRequest, refusals
from antiphon.wire.parse import shorten

MODALITIES = ("text", "audio")
_TRUE_WORDS = ("1", "true", "yes", "on")


@dataclass(frozen=True, kw_only=True)
class ChatPlan:
    """What is to be answered and how the answer is to be written."""

    request: GenerationRequest
    model_name: str
    wants_text: bool
    wants_audio: bool
    form: SpeechFormat
    form_name: str  # as it was asked for
    openai_audio: bool  # `delta.audio` instead of base64 in `delta.content`
    is_streamed: bool
    has_usage: bool
    has_running_usage: bool
    has_metrics: bool
    has_token_ids: bool
    has_prompt_text: bool


@dataclass(frozen=True)
class ChatIntake:
    """Reads chat requests."""

    model: ServedModel
    settings: ServeSettings
    conversations: ConversationReader
    voices: VoiceReader
    pool: DecodePool

    async def plan(self, body: ChatRequest, request_id: str) -> ChatPlan:
        """Check *body* and make it ready.

        Raises:
            AntiphonError: whatever is wrong with it.
        """
        name = self.model.require(body.model)
        _refuse_unsupported(body)
        wanted = _modalities(body.modalities)
        if "audio" in wanted and not self.model.has_speech:
            raise HttpError(BAD_REQUEST, "modalities holds 'audio'; this server supports only text", param="modalities")
        form_name = "wav" if body.audio is None else body.audio.format
        form = _speech_format(form_name) if "audio" in wanted else FORMATS["wav"]
        sampling = stage_params(body, self.model.sampling)
        messages = await self.conversations.read(body.messages, self._media_rules(body))
        prompt = await self.pool.run(partial(self._build_prompt, body, messages, speaks="audio" in wanted))
        voice = await self.voices.read(_root_or_nested(body, "ref_audio")) if "audio" in wanted else None
        options = body.stream_options
        is_streamed = bool(body.stream)
        request = GenerationRequest(
            request_id=request_id,
            prompt=prompt,
            sampling=sampling,
            voice=voice,
            handoff=self.model.handoff(is_streamed=is_streamed),
        )
        return ChatPlan(
            request=request,
            model_name=name,
            wants_text="text" in wanted,
            wants_audio="audio" in wanted,
            form=form,
            form_name=form_name,
            openai_audio=_is_openai_shape(body),
            is_streamed=is_streamed,
            has_usage=self.settings.always_has_usage or bool(options and options.include_usage),
            has_running_usage=bool(options and options.continuous_usage_stats),
            has_metrics=_is_true(_root_or_nested(body, "return_stage_metrics")),
            has_token_ids=bool(body.return_token_ids),
            has_prompt_text=bool(body.return_prompt_text),
        )

    def _media_rules(self, body: ChatRequest) -> MediaRules:
        processor = body.mm_processor_kwargs
        video = body.media_io_kwargs.video if body.media_io_kwargs else None
        if video is not None and video.fps not in (None, 1.0):
            raise HttpError(
                BAD_REQUEST,
                f"media_io_kwargs.video.fps is {video.fps}; the model sees one frame a second, so only 1 is possible",
                param="media_io_kwargs",
            )
        num_frames = (video.num_frames if video else None) or self.model.video.num_frames or MAX_MOMENTS
        says_sound = processor.use_audio_in_video if processor else None
        return MediaRules(
            limits=self.model.media_limits,
            use_audio_in_video=self.settings.use_audio_in_video if says_sound is None else says_sound,
            max_frames=min(num_frames, MAX_MOMENTS),
        )

    def _build_prompt(self, body: ChatRequest, messages: tuple[Message, ...], *, speaks: bool) -> ChatPrompt:
        settings, processor, switches = self.settings, body.mm_processor_kwargs, body.chat_template_kwargs
        thinks = switches.enable_thinking if switches else None
        if thinks is None and body.reasoning_effort is not None:
            thinks = body.reasoning_effort != "none"
        uses_tts = switches.use_tts_template if switches else None
        uses_tts = settings.use_tts_template if uses_tts is None else uses_tts
        image_id = processor.use_image_id if processor else None
        image_id = settings.use_image_id if image_id is None else image_id
        max_slices = processor.max_slice_nums if processor and processor.max_slice_nums else settings.max_slices
        if max_slices is not None and not 1 <= max_slices <= 64:
            raise PromptError(f"mm_processor_kwargs: max_slice_nums is {max_slices}; it must be from 1 to 64")
        return build_chat_prompt(
            messages,
            self.model.tokenizer,
            self.model.image_config,
            join="",
            max_slices=max_slices,
            # The checkpoint was shown videos without image numbers.
            use_image_id=False if image_id is None and has_video(messages) else image_id,
            use_tts_template=speaks if uses_tts is None else uses_tts,
            enable_thinking=settings.enable_thinking if thinks is None else thinks,
            template=self._template(body),
            native_marks=True,
            pool_step=self.model.pool_step,
        )

    def _template(self, body: ChatRequest) -> str | None:
        if body.chat_template is None:
            return self.settings.chat_template
        if not self.settings.trusts_request_template:
            raise HttpError(
                BAD_REQUEST,
                "chat_template: templates of requests are not trusted (see --trust-request-chat-template)",
                param="chat_template",
            )
        return body.chat_template


def new_request_id(wanted: str | None) -> str:
    return f"chatcmpl-{wanted or secrets.token_hex(16)}"


def _refuse_unsupported(body: ChatRequest) -> None:
    found = refusals(body)
    if found:
        name, advice = found[0]
        raise HttpError(BAD_REQUEST, f"{name} is not supported with this value: {advice}", param=name)


def _modalities(wanted: list[str] | None) -> tuple[str, ...]:
    if wanted is None:
        return MODALITIES
    known = ", ".join(MODALITIES)
    if not wanted:
        raise HttpError(BAD_REQUEST, f"modalities is empty; supported: {known}", param="modalities")
    unknown = [name for name in wanted if name not in MODALITIES]
    if unknown:
        listed = ", ".join(shorten(name) for name in unknown[:8])
        raise HttpError(BAD_REQUEST, f"modalities holds {listed}; supported: {known}", param="modalities")
    return tuple(wanted)


def _speech_format(name: str) -> SpeechFormat:
    form = FORMATS.get(ALIASES.get(name, name))
    if form is None:
        known = ", ".join([*FORMATS, *ALIASES])
        raise HttpError(BAD_REQUEST, f"audio.format is {shorten(name)}; supported: {known}", param="audio.format")
    return form


def _is_openai_shape(body: ChatRequest) -> bool:
    """The documented rule: what the request says, else OpenAI's shape if it names a voice as OpenAI's SDK has to."""
    if body.audio_stream_shape is not None:
        return body.audio_stream_shape == "openai"
    return body.audio is not None and body.audio.voice is not None


def _root_or_nested(body: ChatRequest, name: str) -> object:
    """Two keys are also read from a nested `extra_body`, which plain HTTP clients of the reference send."""
    value = getattr(body, name)
    if value is None and isinstance(body.extra_body, dict):
        return body.extra_body.get(name)
    return value


def _is_true(value: object) -> bool:
    return value is True or (isinstance(value, (str, int)) and str(value).strip().lower() in _TRUE_WORDS)
