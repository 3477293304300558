"""Decoded media as the parts of a message, by the rules the model was trained with."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from antiphon.audio.source import MediaSource
from antiphon.audio.video import load_video
from antiphon.prompt.messages import AudioPart, ImagePart, Message, Part
from antiphon.prompt.video import MAX_MOMENTS, Moment, plan_video, weave_video

_MERGE_STEP = 1_600  # samples; see `pad_for_merging`


@dataclass(frozen=True)
class FramePart(ImagePart):
    """A frame of a video."""


def video_parts(source: MediaSource, *, with_audio: bool, max_frames: int = MAX_MOMENTS) -> tuple[Part, ...]:
    """A video file's frames and sound, woven. Raises MediaError."""

    def plan(duration_s: float) -> tuple[Moment, ...]:
        return plan_video(duration_s, max_moments=max_frames)

    video = load_video(
        source, times=lambda duration_s: [moment.start_s for moment in plan(duration_s)], with_audio=with_audio
    )
    frames = dict(zip(video.times_s, video.frames, strict=True))
    return _as_frames(weave_video(plan(video.duration_s), frames, video.audio))


def picture_parts(pictures: Sequence[Image.Image]) -> tuple[Part, ...]:
    """A video without sound, given as its pictures of every second. Raises MediaError."""
    moments = plan_video(float(len(pictures)))
    frames = {moment.start_s: pictures[int(moment.start_s)] for moment in moments}
    return _as_frames(weave_video(moments, frames, None))


def has_video(messages: Sequence[Message]) -> bool:
    """Whether there is a frame of a video: the checkpoint was shown videos without image numbers."""
    return any(isinstance(part, FramePart) for message in messages for part in message.parts)


def pad_for_merging(message: Message) -> Message:
    """Fill every clip but the last up to a multiple of 0.1 s.

    Clips of one message are joined before the encoder. Of odd lengths they would then give fewer rows than they have
    placeholders one by one.
    """
    places = [place for place, part in enumerate(message.parts) if isinstance(part, AudioPart)]
    parts = [
        AudioPart(np.pad(part.samples, (0, -len(part.samples) % _MERGE_STEP)))
        if isinstance(part, AudioPart) and place != places[-1]
        else part
        for place, part in enumerate(message.parts)
    ]
    return Message(message.role, tuple(parts), message.tool_calls)


def _as_frames(parts: Sequence[Part]) -> tuple[Part, ...]:
    """A frame is one slice: it is small already, and there are many."""
    return tuple(FramePart(part.image, max_slices=1) if isinstance(part, ImagePart) else part for part in parts)
