"""A conversation to what the Thinker is fed: token ids, the rows that media overwrite, pixel strips and clips.

Source: model specification 2.2, 2.3, 2.5 and 2.9.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from antiphon.config.checkpoint import ImageConfig
from antiphon.core.errors import ContextLengthError, MediaError, PromptError
from antiphon.prompt.contents import template_messages
from antiphon.prompt.images import Strip, prepare_image
from antiphon.prompt.messages import AudioPart, ImagePart, Message, TextPart
from antiphon.prompt.placeholders import Span, audio_placeholder, audio_runs, find_spans, image_placeholder
from antiphon.prompt.segments import Handles, Markup, Media, Plain, Segment
from antiphon.prompt.template import render_chat
from antiphon.prompt.tokenizer import Tokenizer

IMAGE_MARK, AUDIO_MARK = "<image>./</image>", "<audio>./</audio>"


@dataclass
class ChatPrompt:
    """Invariant: bounds are ascending and do not overlap; the k-th strip belongs to the k-th image bound."""

    ids: list[int] = field(default_factory=list)
    image_bounds: list[Span] = field(default_factory=list)  # rows of `ids` to overwrite, one span per picture or slice
    audio_bounds: list[Span] = field(
        default_factory=list
    )  # the rows of all clips, joined, fill these one after another
    strips: list[Strip] = field(default_factory=list)  # each float32 [3, P, P·L]
    patch_grids: list[tuple[int, int]] = field(default_factory=list)  # rows and columns of patches, one per strip
    clips: list[NDArray[np.float32]] = field(default_factory=list)  # each [N], 16 kHz
    text: str = ""  # for people: each part as `<image>./</image>` or `<audio>./</audio>`


@dataclass(frozen=True, kw_only=True)
class _MediaRules:
    image_config: ImageConfig
    max_slices: int | None
    use_image_id: bool
    chunked_audio: bool
    pool_step: int
    native_marks: bool


def build_chat_prompt(
    messages: Sequence[Message],
    tokenizer: Tokenizer,
    image_config: ImageConfig,
    *,
    join: str = "\n",
    max_slices: int | None = None,
    use_image_id: bool | None = None,
    use_tts_template: bool = False,
    enable_thinking: bool | None = False,
    add_generation_prompt: bool = True,
    tools: Sequence[Mapping[str, object]] | None = None,
    template: str | None = None,
    protect_text: bool = True,
    native_marks: bool = False,
    chunked_audio: bool = False,
    merge_audio: bool = True,
    pool_step: int = 5,
    max_tokens: int | None = None,
    overflow: Literal["refuse", "cut"] = "refuse",
) -> ChatPrompt:
    """Build the prompt of one request.

    Args:
        join: what stands between the parts of a message: a newline in chat, nothing for video, streaming and the native
            rule. It is a token of the prompt, so it changes every hidden state after it.
        max_slices: most slices of an image whose part does not say; None means the checkpoint's number.
        use_image_id: number the images; None means what the checkpoint says.
        use_tts_template: the answer is to be spoken. Any audio in the conversation switches it on, as in the reference.
        enable_thinking: False writes an empty thought, True and None leave the model to think.
        protect_text: keep what looks like a special token in messages and tools as text. False parses it and removes
            `<|listen|>`, as the reference does: for parity only, since users could then forge roles.
        native_marks: write media in `text` with parentheses, `(<image>./</image>)`. The ids are the same.
        chunked_audio: bracket every second of a clip by itself, as streamed input is.
        merge_audio: join the clips of a message into one before the encoder.
        pool_step: the audio encoder's pooling.
        max_tokens: longest prompt.
        overflow: refuse a longer one, or cut its tail off as the reference does.

    Raises:
        PromptError: an unknown role, or a template that fails or misplaces parts.
        MediaError: an image or clip without content.
        ContextLengthError: longer than *max_tokens*, or a cut through an image or clip.
    """
    if join not in ("\n", ""):
        raise PromptError(f"parts can be joined by a newline or by nothing, not by {join!r}")
    media = [part for message in messages for part in message.parts if not isinstance(part, TextPart)]
    handles = Handles()

    def shield(text: str) -> str:
        return handles.lend(Plain(text)) if protect_text else text

    rendered = render_chat(
        template_messages(messages, join=join, handles=handles, shield=shield),
        add_generation_prompt=add_generation_prompt,
        enable_thinking=enable_thinking,
        use_tts_template=use_tts_template or any(isinstance(part, AudioPart) for part in media),
        tools=tools,
        template=template,
        shield=shield,
    )
    rules = _MediaRules(
        image_config=image_config,
        max_slices=max_slices,
        use_image_id=image_config.use_image_id if use_image_id is None else use_image_id,
        chunked_audio=chunked_audio,
        pool_step=pool_step,
        native_marks=native_marks,
    )
    prompt = _assemble(handles.redeem(rendered), media, tokenizer, rules)
    prompt.clips = _clips(messages, merge=merge_audio)
    if not protect_text:
        _drop_listen(prompt, tokenizer.special.listen)
    if max_tokens is not None:
        _limit(prompt, max_tokens, overflow)
    return prompt


def _assemble(
    segments: Sequence[Segment], media: Sequence[ImagePart | AudioPart], tokenizer: Tokenizer, rules: _MediaRules
) -> ChatPrompt:
    order = [segment.index for segment in segments if isinstance(segment, Media)]
    if order != list(range(len(media))):
        raise PromptError("the chat template leaves out, repeats or reorders images or clips")
    prompt = ChatPrompt()
    texts: list[Markup | Plain] = []
    num_images = 0
    for segment in segments:
        if not isinstance(segment, Media):
            texts.append(segment)
            prompt.text += segment.text
            continue
        part = media[segment.index]
        if isinstance(part, ImagePart):
            placeholder = _add_image(prompt, part, num_images, rules)
            bounds, mark = prompt.image_bounds, IMAGE_MARK
            num_images += 1
        else:
            placeholder = audio_placeholder(
                audio_runs(len(part.samples), pool_step=rules.pool_step, chunked=rules.chunked_audio)
            )
            bounds, mark = prompt.audio_bounds, AUDIO_MARK
        prompt.text += f"({mark})" if rules.native_marks else mark
        if placeholder:  # a chunked clip may be too short for a single run: then the texts around it are one stretch
            prompt.ids += tokenizer.encode_segments(texts)
            texts.clear()
            ids = tokenizer.encode(placeholder)
            bounds += [
                (len(prompt.ids) + start, len(prompt.ids) + end) for start, end in find_spans(ids, tokenizer.special)
            ]
            prompt.ids += ids
    prompt.ids += tokenizer.encode_segments(texts)
    return prompt


def _add_image(prompt: ChatPrompt, part: ImagePart, number: int, rules: _MediaRules) -> str:
    limit = rules.max_slices if part.max_slices is None else part.max_slices
    prepared = prepare_image(part.image, rules.image_config, limit)
    prompt.strips += prepared.strips
    prompt.patch_grids += prepared.patch_grids
    return image_placeholder(prepared.grid, rules.image_config.num_queries, number if rules.use_image_id else None)


def _clips(messages: Sequence[Message], *, merge: bool) -> list[NDArray[np.float32]]:
    clips: list[NDArray[np.float32]] = []
    for message in messages:
        samples = [part.samples for part in message.parts if isinstance(part, AudioPart)]
        for clip in samples:
            if clip.ndim != 1 or not len(clip):
                raise MediaError(f"a clip has shape {clip.shape}; expected mono samples, at least one")
        clips += [np.concatenate(samples)] if merge and samples else samples
    return clips


def _drop_listen(prompt: ChatPrompt, listen_id: int) -> None:
    """Delete every listen id, and move the bounds behind it: the reference does so to all text it tokenizes."""
    if listen_id not in prompt.ids:
        return
    kept_before = [0]
    for token_id in prompt.ids:
        kept_before.append(kept_before[-1] + (token_id != listen_id))
    prompt.ids = [token_id for token_id in prompt.ids if token_id != listen_id]
    for bounds in (prompt.image_bounds, prompt.audio_bounds):
        bounds[:] = [(kept_before[start], kept_before[end]) for start, end in bounds]


def _limit(prompt: ChatPrompt, max_tokens: int, overflow: Literal["refuse", "cut"]) -> None:
    num_tokens = len(prompt.ids)
    if num_tokens <= max_tokens:
        return
    if overflow == "refuse":
        raise ContextLengthError(f"the prompt has {num_tokens} tokens; at most {max_tokens} are accepted: shorten it")
    if any(end > max_tokens for _, end in (*prompt.image_bounds, *prompt.audio_bounds)):
        raise ContextLengthError(f"cutting the prompt to {max_tokens} of {num_tokens} tokens would go through media")
    prompt.ids = prompt.ids[:max_tokens]
