import pytest

from antiphon.realtime.playback import Playback, PlaybackLedger

SECOND = 24_000


def spoken() -> Playback:
    playback = Playback("r")
    playback.add(SECOND, "0123456789", 10.0)
    playback.add(SECOND, "abcdefghij", 11.0)
    return playback


@pytest.mark.parametrize(
    ("heard_ms", "text"),
    [(0, ""), (500, "01234"), (1000, "0123456789"), (1500, "0123456789abcde"), (2000, "0123456789abcdefghij")],
)
def test_the_heard_text_is_interpolated_between_marks(heard_ms, text):
    playback = spoken()
    playback.acknowledge(heard_ms, None)
    assert playback.heard_text() == text


def test_cursors_only_rise():
    playback = spoken()
    playback.acknowledge(1500, 1200)
    playback.acknowledge(1000, 900)
    assert (playback.played_ms, playback.committed_ms) == (1500, 1200)


def test_a_negative_acknowledgement_is_zero():
    playback = spoken()
    playback.acknowledge(-5, None)
    assert playback.committed_ms == 0


def test_a_truncation_is_sticky_and_may_only_be_lowered():
    playback = spoken()
    playback.truncate(1000)
    playback.acknowledge(2000, None)
    assert (playback.committed_ms, playback.shown_text()) == (1000, "0123456789")
    playback.truncate(500)
    playback.truncate(1500)
    assert playback.shown_text() == "01234"
    assert not playback.is_owed


def test_truncation_at_zero_leaves_no_text():
    playback = spoken()
    playback.truncate(0)
    assert (playback.shown_text(), playback.heard_text()) == ("", "")


def test_playback_that_nobody_acknowledges_counts_as_heard_in_time():
    ledger = PlaybackLedger(slack_s=5)
    playback = ledger.open("r", 0)
    playback.add(2 * SECOND, "text", 10.0)
    assert ledger.next_deadline(None) == 17.0
    assert ledger.settle(16.9, None) == []
    assert ledger.settle(17.0, "r") == []
    assert ledger.settle(17.0, None) == [playback]
    assert playback.heard_text() == "text"
    assert ledger.owed() == []


def test_text_after_the_last_audio_is_heard_with_it():
    playback = spoken()
    playback.add(0, "!", 12.0)
    playback.acknowledge(2000, None)
    assert playback.heard_text().endswith("j!")
