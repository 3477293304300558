from itertools import pairwise

import pytest

from antiphon.evals.datasets.frames import frame_times_s


def test_a_short_video_gives_every_whole_second() -> None:
    assert frame_times_s(3.9, 96) == [0.0, 1.0, 2.0]
    assert frame_times_s(0.4, 96) == [0.0]


def test_a_longer_one_gives_even_times_on_a_grid_from_first_to_last() -> None:
    times = frame_times_s(3600.0, 96)
    assert len(times) == 96
    assert times[0] == 0.0
    assert times[-1] == pytest.approx(3599.9)
    gaps = [after - before for before, after in pairwise(times)]
    assert max(gaps) - min(gaps) < 0.11
    assert frame_times_s(100.0, 1) == [0.0]
