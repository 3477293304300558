"""Writes the segments of a simplex session: ids, and where image and audio rows go. Specification, section 2.10."""

from collections.abc import Sequence
from dataclasses import dataclass

from antiphon.config.checkpoint import ImageConfig
from antiphon.prompt.images import PreparedImage, prepare_image
from antiphon.prompt.messages import AudioPart, ImagePart, Part, TextPart
from antiphon.prompt.placeholders import Span, audio_placeholder, audio_runs, find_spans, image_placeholder
from antiphon.prompt.segments import Markup, Plain
from antiphon.prompt.tokenizer import Tokenizer

SYSTEM_START, SYSTEM_END = "<|im_start|>system\n", "<|im_end|>\n"
USER_START = "<|im_start|>user\n"
ANSWER_CUT_END = "<|tts_eos|><|im_end|>\n"  # closes an answer that may have been interrupted
ANSWER_START = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
SPOKEN_START = "<|tts_bos|>"
STREAMED_MAX_SLICES = 1  # chat allows more


@dataclass(frozen=True)
class SegmentPrompt:
    """One segment. Images and clips come in the order of their spans; audio rows are cut along the audio spans."""

    ids: list[int]
    text: str  # for people: media as `<image>./</image>` and `<audio>./</audio>`
    image_spans: list[Span]
    audio_spans: list[Span]
    images: list[PreparedImage]
    clips: list[AudioPart]


def write_segment(
    before: str, parts: Sequence[Part], after: str, tokenizer: Tokenizer, image_config: ImageConfig, *, pool_step: int
) -> SegmentPrompt:
    """Encode *parts* between the markup *before* and *after*. Nothing joins the parts; images have no id."""
    pieces: list[Markup | Plain] = [Markup(before)]
    shown = [before]
    images: list[PreparedImage] = []
    clips: list[AudioPart] = []
    for part in parts:
        if isinstance(part, TextPart):
            pieces.append(Plain(part.text))
            shown.append(part.text)
        elif isinstance(part, ImagePart):
            image = prepare_image(part.image, image_config, part.max_slices or STREAMED_MAX_SLICES)
            pieces.append(Markup(image_placeholder(image.grid, image_config.num_queries)))
            images.append(image)
            shown.append("<image>./</image>")
        else:
            runs = audio_runs(len(part.samples), pool_step=pool_step, chunked=False)
            pieces.append(Markup(audio_placeholder(runs)))
            clips.append(part)
            shown.append("<audio>./</audio>")
    ids = tokenizer.encode_segments([*pieces, Markup(after)])
    # Text is encoded without parsing, so every bracket in the ids is one of ours.
    spans = find_spans(ids, tokenizer.special)
    audio_spans = [span for span in spans if ids[span[0] - 1] == tokenizer.special.audio_start]
    image_spans = [span for span in spans if ids[span[0] - 1] != tokenizer.special.audio_start]
    return SegmentPrompt(ids, "".join([*shown, after]), image_spans, audio_spans, images, clips)
