"""Would a player run dry?"""

import pytest

from antiphon.bench.continuity import underrun_s
from antiphon.bench.timeline import AudioArrival


def arrivals(*pairs: tuple[float, float]) -> list[AudioArrival]:
    """(time, seconds of sound) each."""
    return [
        AudioArrival(at_s=at_s, num_frames=round(24_000 * sound_s), sample_rate_hz=24_000) for at_s, sound_s in pairs
    ]


def test_the_lack_before_a_late_chunk_is_counted() -> None:
    assert underrun_s(arrivals((0.0, 1.0), (0.5, 1.0), (2.6, 1.0))) == pytest.approx(0.6)


def test_playback_starts_at_the_first_sound_not_at_the_request() -> None:
    assert underrun_s(arrivals((5.0, 1.0), (5.9, 1.0))) == 0.0


def test_an_empty_event_neither_starts_the_player_nor_fills_it() -> None:
    assert underrun_s(arrivals((0.0, 0.0), (3.0, 1.0), (3.5, 0.0), (4.25, 1.0))) == pytest.approx(0.25)


def test_two_gaps_add_up_to_the_largest_lack() -> None:
    assert underrun_s(arrivals((0.0, 1.0), (1.5, 1.0), (3.0, 1.0))) == pytest.approx(1.0)


def test_without_sound_there_is_no_underrun() -> None:
    assert underrun_s([]) == 0.0
