"""The recorded bookkeeping in small numbers."""

import pytest

from antiphon.pipeline.eager.simplex_window import RoundWindow


@pytest.fixture
def window():
    window = RoundWindow(high_tokens=50, low_tokens=30)
    for role, length in (("system", 10), ("user", 5), ("assistant", 6), ("user", 7), ("user", 8), ("assistant", 9)):
        window.register(role, length)
    return window


def test_a_segment_behind_an_answer_opens_a_round(window):
    assert [entry.round_id for entry in window.entries] == [0, 0, 0, 1, 1, 1]
    window.register("user", 1)
    assert window.round_id == 2


def test_segments_without_an_answer_between_share_their_round():
    window = RoundWindow()
    window.register("user", 1)
    window.register("user", 1)
    assert window.round_id == 0


def test_exactly_the_high_mark_drops_nothing(window):
    assert window.drop(50) == 0
    assert len(window.entries) == 6


def test_the_oldest_round_but_the_first_leaves_as_a_whole(window):
    assert window.drop(51) == 24
    assert [entry.role for entry in window.entries] == ["system", "user", "assistant"]
    assert window.num_dropped_tokens == 24


def test_rounds_leave_until_the_low_mark(window):
    window.register("user", 20)
    window.register("assistant", 1)
    window.register("user", 2)
    assert window.drop(70) == 24 + 21  # 46 left after round 1, 25 after round 2
    assert window.round_id == 3


def test_the_first_round_never_leaves_whatever_the_length(window):
    window.drop(500)
    assert window.drop(500) == 0
    assert [entry.round_id for entry in window.entries] == [0, 0, 0]


def test_the_running_segment_itself_may_leave(window):
    window.drop(500)
    window.register("user", 3)
    assert window.drop(500) == 3
