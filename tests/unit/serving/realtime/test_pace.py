from antiphon.serving.realtime.pace import Pace

FRAMES = (b"base", b"stacked")


def pace_after(*units_s: float) -> Pace:
    pace = Pace()
    for unit_s in units_s:
        pace.note(unit_s)
    return pace


def test_units_within_their_second_leave_everything_in() -> None:
    pace = pace_after(0.1, 0.9, 1.0)
    assert not pace.is_behind
    assert pace.keep(FRAMES) == FRAMES


def test_one_slow_unit_is_made_up_for_by_the_next_ones() -> None:
    pace = pace_after(1.5, 0.2)
    assert pace.lag_s == 0.0
    assert not pace.is_behind


def test_pictures_are_left_out_from_a_lag_of_a_second_until_there_is_none() -> None:
    pace = pace_after(1.5, 1.5)
    assert pace.keep(FRAMES) == ()
    pace.note(0.5)
    assert pace.lag_s == 0.5
    assert pace.keep(FRAMES[:1]) == ()
    pace.note(0.5)
    assert pace.keep(FRAMES) == FRAMES
    assert pace.num_dropped_frames == 3


def test_it_is_told_once_each_time_that_a_session_falls_behind() -> None:
    pace = Pace()
    assert [pace.note(unit_s) for unit_s in (2.0, 2.0, 0.0, 0.0, 3.0)] == [True, False, False, False, True]
