import pytest

from antiphon.pipeline.duplex.session_load import MIN_UNITS, SessionLoad


def load_of(unit_s: float, *, num_sessions: int, count: int = 2 * MIN_UNITS) -> SessionLoad:
    load = SessionLoad()
    for _ in range(count):
        load.note(unit_s, num_sessions=num_sessions, now_s=0.0)
    return load


def test_nothing_is_known_before_enough_units_came() -> None:
    assert load_of(5.0, num_sessions=2, count=MIN_UNITS - 1).projected_s(num_sessions=2, now_s=0.0) is None


def test_what_was_measured_is_scaled_to_one_session_more() -> None:
    assert load_of(0.4, num_sessions=4).projected_s(num_sessions=4, now_s=1.0) == pytest.approx(0.5)


def test_what_was_measured_with_few_sessions_says_nothing_about_many() -> None:
    load = load_of(0.2, num_sessions=1)
    assert load.projected_s(num_sessions=2, now_s=0.0) == pytest.approx(0.6)
    assert load.projected_s(num_sessions=3, now_s=0.0) is None


def test_sessions_that_left_do_not_make_the_rest_look_faster_than_measured() -> None:
    assert load_of(0.7, num_sessions=8).projected_s(num_sessions=4, now_s=0.0) == 0.7


def test_old_units_say_nothing() -> None:
    load = load_of(3.0, num_sessions=2)
    assert load.projected_s(num_sessions=2, now_s=30.0) is not None
    assert load.projected_s(num_sessions=2, now_s=30.1) is None


def test_a_rare_slow_unit_does_not_decide() -> None:
    load = load_of(0.1, num_sessions=2, count=99)
    load.note(9.0, num_sessions=2, now_s=0.0)
    assert load.projected_s(num_sessions=2, now_s=0.0) == pytest.approx(0.15)


def test_a_machine_on_which_hardly_any_unit_ends_is_known_by_those_that_wait() -> None:
    load = SessionLoad()
    assert load.projected_s(num_sessions=4, now_s=0.0, running_s=(3.0, 2.0, 0.1, 0.1)) == pytest.approx(3.75)
    assert load.projected_s(num_sessions=4, now_s=0.0, running_s=(3.0, 0.9, 0.1, 0.1)) is None


def test_the_first_session_is_always_taken() -> None:
    assert load_of(9.0, num_sessions=1).projected_s(num_sessions=0, now_s=0.0) is None
