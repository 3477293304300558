import pytest

from antiphon.client.loudspeaker import Loudspeaker


def test_pieces_sound_one_after_another_and_no_faster_than_they_are():
    speaker = Loudspeaker()
    speaker.put("a", 1.0, 10.0)
    speaker.put("a", 1.0, 10.1)
    assert speaker.heard_s("a", 10.5) == pytest.approx(0.5)
    assert speaker.heard_s("a", 11.5) == pytest.approx(1.5)
    assert speaker.left_s(11.5) == pytest.approx(0.5)
    assert speaker.heard_s("a", 99.0) == pytest.approx(2.0)
    assert speaker.underruns_s == 0


def test_a_late_piece_is_an_underrun_and_is_heard_from_its_arrival():
    speaker = Loudspeaker()
    speaker.put("a", 1.0, 0.0)
    speaker.put("a", 1.0, 1.4)
    assert speaker.underruns_s == pytest.approx(0.4)
    assert speaker.heard_s("a", 1.9) == pytest.approx(1.5)


def test_the_pause_between_two_responses_is_no_underrun():
    speaker = Loudspeaker()
    speaker.put("a", 1.0, 0.0)
    speaker.put("b", 1.0, 5.0)
    assert speaker.underruns_s == 0
    assert (speaker.heard_s("a", 5.5), speaker.heard_s("b", 5.5)) == (1.0, 0.5)


def test_what_is_cleared_is_never_heard():
    speaker = Loudspeaker()
    speaker.put("a", 1.0, 0.0)
    speaker.put("a", 1.0, 0.0)
    speaker.clear(1.25)
    assert (speaker.heard_s("a", 99.0), speaker.left_s(1.25)) == (1.25, 0.0)
