from typing import Any

import numpy as np
from PIL import Image

from antiphon.prompt.media_parts import FramePart, has_video, pad_for_merging, picture_parts, video_parts
from antiphon.prompt.messages import AudioPart, ImagePart, Message, TextPart


def test_a_video_is_frames_and_sound_by_turns(encode_video: Any, tone: Any) -> None:
    parts = video_parts(encode_video(seconds=2, sound=tone(2.0)), with_audio=True)
    assert [type(part) for part in parts] == [FramePart, AudioPart, FramePart, AudioPart]
    assert {part.max_slices for part in parts if isinstance(part, ImagePart)} == {1}
    assert len(video_parts(encode_video(seconds=2, sound=tone(2.0)), with_audio=False)) == 2


def test_frames_are_spread_when_there_may_be_few(encode_video: Any) -> None:
    parts = video_parts(encode_video(seconds=4), with_audio=False, max_frames=2)
    shades = [np.asarray(part.image).mean() for part in parts if isinstance(part, ImagePart)]
    assert len(shades) == 2
    assert shades[1] - shades[0] > 100


def test_pictures_are_a_second_apart() -> None:
    pictures = [Image.new("RGB", (8, 8), (shade, 0, 0)) for shade in (10, 20, 30)]
    parts = picture_parts(pictures)
    assert [part.image for part in parts if isinstance(part, ImagePart)] == pictures
    assert has_video([Message("user", (TextPart("x"), *parts))])
    assert not has_video([Message("user", (ImagePart(pictures[0]),))])


def test_every_clip_but_the_last_is_filled_to_a_tenth_of_a_second() -> None:
    clips = [AudioPart(np.ones(size, np.float32)) for size in (1_601, 3_200, 1_601)]
    padded = pad_for_merging(Message("user", (clips[0], TextPart("x"), clips[1], clips[2])))
    assert [len(part.samples) for part in padded.parts if isinstance(part, AudioPart)] == [3_200, 3_200, 1_601]
    silent = pad_for_merging(Message("user", (TextPart("x"),)))
    assert silent.parts == (TextPart("x"),)
