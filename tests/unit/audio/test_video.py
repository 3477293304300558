from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.audio.video import load_video
from antiphon.core.errors import MediaError

EncodeVideo = Callable[..., bytes]


def shades(frames: tuple[object, ...]) -> list[int]:
    return [frame.getpixel((0, 0))[0] for frame in frames]  # type: ignore[attr-defined]


def test_a_clip_gives_the_frame_at_every_second(encode_video: EncodeVideo) -> None:
    video = load_video(encode_video(seconds=3))
    assert video.times_s == (0.0, 1.0, 2.0)
    assert np.abs(np.array(shades(video.frames)) - [0, 50, 100]).max() < 5
    assert video.duration_s == pytest.approx(3.0)
    assert video.audio is None


def test_the_sound_is_16_khz_from_the_first_frame_on(
    encode_video: EncodeVideo, tone: Callable[..., NDArray[np.float32]]
) -> None:
    audio = load_video(encode_video(seconds=2, sound=tone(2.0))).audio
    assert audio is not None
    assert abs(len(audio) - 32_000) < 2_000
    assert 0.15 < np.abs(audio[2_000:30_000]).mean() < 0.23
    assert load_video(encode_video(sound=tone(2.0)), with_audio=False).audio is None


def test_a_frame_stays_on_screen_until_the_next(encode_video: EncodeVideo) -> None:
    """Variable frame rate: nothing between 0.4 s and 1.8 s, nor between 2.4 s and 5.6 s."""
    video = load_video(encode_video(seconds=1.4, pts=[0, 1, 2, 9, 10, 12, 28]))
    assert len(video.frames) == 6
    assert np.abs(np.array(shades(video.frames)) - [0, 20, 40, 50, 50, 50]).max() < 5


@pytest.mark.parametrize(
    "options",
    [
        {"seconds": 0.2},
        {"size": (641, 359), "codec": "mjpeg", "container": "matroska", "pixels": "yuvj444p"},
        {"codec": "mpeg4", "container": "avi"},
    ],
)
def test_odd_clips_are_decoded(encode_video: EncodeVideo, options: dict[str, object]) -> None:
    video = load_video(encode_video(**options))
    assert video.frames[0].size == options.get("size", (64, 48))


def test_chosen_moments_are_known_before_decoding(encode_video: EncodeVideo) -> None:
    video = load_video(encode_video(seconds=2), times=lambda duration_s: [0.0, duration_s - 0.2])
    assert video.times_s == (0.0, pytest.approx(1.8))
    assert abs(shades(video.frames)[1] - 90) < 5
    with pytest.raises(MediaError, match="would give 5 frames; at most 3"):
        load_video(encode_video(), times=lambda _: range(5), max_frames=3)


def test_large_frames_are_scaled_down(encode_video: EncodeVideo) -> None:
    frame = load_video(encode_video(seconds=0.2, size=(2560, 1440))).frames[0]
    assert frame.size == (1920, 1080)


def test_a_clip_without_frames_is_refused(
    encode_video: EncodeVideo, encode_audio: Callable[..., bytes], tone: Callable[..., NDArray[np.float32]]
) -> None:
    for content, reason in (
        (encode_audio(tone(), form="OGG"), "holds no video"),
        (b"not a video " * 50, "cannot be decoded"),
        (encode_video()[:500], "cannot be decoded"),
        (encode_video(seconds=0, container="matroska"), "no frames|cannot be decoded|no video"),
    ):
        with pytest.raises(MediaError, match=reason):
            load_video(content)


def test_a_clip_over_the_limit_is_refused_before_decoding(encode_video: EncodeVideo) -> None:
    with pytest.raises(MediaError, match=r"400.0 s long; at most 300 s"):
        load_video(encode_video(seconds=400, fps=1, size=(16, 16)))
