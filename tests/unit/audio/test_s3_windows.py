import numpy as np

from antiphon.audio.s3_windows import join_codes, window_spans


def test_up_to_30_seconds_there_is_one_window() -> None:
    assert window_spans(7) == [(0, 7)]
    assert window_spans(3_000) == [(0, 3_000)]


def test_longer_recordings_are_read_in_windows_that_overlap_by_4_seconds() -> None:
    assert window_spans(3_001) == [(0, 3_000), (2_600, 3_001)]
    assert window_spans(7_000) == [(0, 3_000), (2_600, 5_600), (5_200, 7_000)]


def test_a_window_starts_wherever_sound_is_left() -> None:
    assert window_spans(5_300) == [(0, 3_000), (2_600, 5_300), (5_200, 5_300)]


def test_two_windows_meet_in_the_middle_of_their_overlap() -> None:
    first, second = np.arange(750), np.arange(650, 900)
    assert join_codes([first, second]).tolist() == list(range(900))


def test_a_single_window_is_kept_whole() -> None:
    assert join_codes([np.arange(5)]).tolist() == [0, 1, 2, 3, 4]
