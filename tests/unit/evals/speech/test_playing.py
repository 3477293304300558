import pytest

from antiphon.evals.speech.playing import Stall, play


def test_the_specifications_example_lacks_six_tenths() -> None:
    playing = play([(0.0, 24_000), (0.5, 24_000), (2.6, 24_000)], 24_000)
    assert playing.underrun_s == pytest.approx(0.6)
    assert not playing.is_continuous()
    assert playing.stalls == (Stall(2.0, pytest.approx(0.6)),)


def test_several_stalls_add_up_and_each_has_its_place() -> None:
    playing = play([(1.0, 100), (2.5, 100), (3.0, 0), (4.0, 100)], 100)
    assert [(stall.position_s, stall.duration_s) for stall in playing.stalls] == [(1.0, 0.5), (2.0, 0.5)]
    assert (playing.underrun_s, playing.longest_s) == (1.0, 0.5)


def test_what_comes_in_time_never_stalls() -> None:
    playing = play([(0.3, 2400), (0.4, 2400), (0.5, 2400)], 24_000)
    assert playing.stalls == ()
    assert playing.is_continuous(0.0)
    assert play([], 24_000).longest_s == 0.0
