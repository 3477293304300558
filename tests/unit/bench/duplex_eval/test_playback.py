"""What a listener has heard."""

from antiphon.bench.duplex_eval.playback import Playback


def test_audio_is_heard_as_time_passes_and_never_before_it_came() -> None:
    playback = Playback(is_instant=False)
    playback.receive("a", 1.0, 10.0)
    assert playback.news(10.25) == [("a", 250)]
    assert playback.news(10.25) == []
    assert playback.news(20.0) == [("a", 1000)]
    playback.receive("a", 1.0, 20.0)
    assert playback.news(20.5) == [("a", 1500)]


def test_responses_are_played_one_after_another() -> None:
    playback = Playback(is_instant=False)
    playback.receive("a", 1.0, 0.0)
    playback.receive("b", 1.0, 0.0)
    assert playback.news(1.5) == [("a", 1000), ("b", 500)]


def test_without_pacing_everything_is_heard_at_once() -> None:
    playback = Playback(is_instant=True)
    playback.receive("a", 2.0, 0.0)
    assert playback.news(0.0) == [("a", 2000)]
