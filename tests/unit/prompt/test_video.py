"""Which moments of a video are shown, and how its parts are woven together."""

from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from antiphon.core.errors import MediaError
from antiphon.prompt.messages import AudioPart, ImagePart, Part
from antiphon.prompt.video import Moment, plan_video, stack_frames, wanted_times, weave_video


def frame(width: int = 4, height: int = 3, colour: str = "red") -> Image.Image:
    return Image.new("RGB", (width, height), colour)


def weave(moments: tuple[Moment, ...], samples: np.ndarray | None) -> tuple[Part, ...]:
    return weave_video(moments, {time_s: frame() for time_s in wanted_times(moments)}, samples)


def test_a_short_video_has_a_moment_for_every_second_that_has_begun() -> None:
    assert plan_video(2.4) == (Moment(0.0, 1.0, ()), Moment(1.0, 2.0, ()), Moment(2.0, 2.4, ()))
    assert len(plan_video(64.0)) == 64


def test_a_long_video_has_64_moments_spread_over_tenths_of_seconds() -> None:
    moments = plan_video(200.0)
    assert len(moments) == 64
    assert moments[0].start_s == 0.0
    assert moments[-1].start_s == 199.9
    assert moments[-1].end_s == 200.0
    assert all(before.end_s == after.start_s for before, after in pairwise(moments))
    assert all(abs(moment.start_s * 10 - round(moment.start_s * 10)) < 1e-9 for moment in moments)


def test_frames_between_moments_stay_inside_the_video() -> None:
    first, second = plan_video(1.5, frames_per_second=4)
    assert first.between_s == (0.25, 0.5, 0.75)
    assert second.between_s == (1.25,)
    assert wanted_times((first, second)) == (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)


@pytest.mark.parametrize("duration_s", [0.0, -1.0, float("nan")])
def test_a_video_without_duration_is_refused(duration_s: float) -> None:
    with pytest.raises(MediaError, match="nothing of it can be shown"):
        plan_video(duration_s)


def test_frame_and_sound_of_every_second_alternate() -> None:
    samples = np.arange(40_000, dtype=np.float32)
    parts = weave(plan_video(2.5), samples)
    assert [type(part) for part in parts] == [ImagePart, AudioPart] * 3
    pieces = [part.samples for part in parts if isinstance(part, AudioPart)]
    np.testing.assert_array_equal(np.concatenate(pieces), samples)
    assert [len(piece) for piece in pieces] == [16_000, 16_000, 8_000]


def test_a_composite_follows_the_sound_of_its_second() -> None:
    parts = weave(plan_video(1.1, frames_per_second=3), np.zeros(17_600, dtype=np.float32))
    assert [type(part) for part in parts] == [ImagePart, AudioPart, ImagePart, ImagePart, AudioPart]


def test_a_rest_too_short_to_hear_is_filled_up_with_silence() -> None:
    parts = weave(plan_video(1.05), np.ones(16_800, dtype=np.float32))
    last = parts[-1]
    assert isinstance(last, AudioPart)
    assert (len(last.samples), last.samples.sum()) == (1_600, 800)


def test_a_silent_video_has_only_frames() -> None:
    assert [type(part) for part in weave(plan_video(2.0), None)] == [ImagePart, ImagePart]


@pytest.mark.parametrize(
    ("sizes", "extent"),
    [
        ([(40, 30)], (40, 30)),
        ([(40, 30)] * 2, (40, 66)),
        ([(30, 40)] * 2, (66, 40)),
        ([(30, 30)] * 2, (30, 66)),  # the measure is width over height, so a column wins a tie
        ([(40, 10)] * 3, (40, 42)),
        ([(10, 40)] * 3, (42, 40)),
        ([(40, 30)] * 4, (86, 66)),
        ([(40, 30)] * 5, (224, 30)),
        ([(40, 10), (20, 30)], (40, 66)),
    ],
)
def test_stacked_frames_are_laid_out_near_a_square(sizes: list[tuple[int, int]], extent: tuple[int, int]) -> None:
    assert stack_frames([frame(*size) for size in sizes]).size == extent


def test_tiles_lie_on_white_between_black_lines() -> None:
    stacked = stack_frames([frame(40, 20, "red"), frame(40, 40, "blue")])
    assert stacked.size == (40, 86)
    colours = [stacked.getpixel((20, y)) for y in (2, 20, 37, 41, 44, 48, 84)]
    white, black, red, blue = (255, 255, 255), (0, 0, 0), (255, 0, 0), (0, 0, 255)
    assert colours == [white, red, white, black, black, blue, blue]


def test_nothing_cannot_be_stacked() -> None:
    with pytest.raises(MediaError, match="no frames"):
        stack_frames([])
