import numpy as np
import pytest

from antiphon.evals.speech.defects import find_defects
from antiphon.evals.speech.sound import Sound

RATE_HZ = 24_000


def voice(duration_s: float = 1.0) -> np.ndarray:
    """A buzz of ten harmonics with a little noise."""
    time_s = np.arange(round(duration_s * RATE_HZ)) / RATE_HZ
    buzz = sum(np.sin(2 * np.pi * 120 * k * time_s + k) / k for k in range(1, 11))
    noise = np.random.default_rng(0).normal(0, 1e-4, len(time_s))
    return (0.15 * buzz + noise).astype(np.float32)


def test_a_clean_voice_has_no_defects() -> None:
    found = find_defects(Sound(voice(), RATE_HZ), borders=range(1000, 23_000, 997))
    assert (found.clicks_s, found.border_clicks_s, found.dropouts_s) == ((), (), ())
    assert (found.clipped_share, found.silence_share, found.longest_pause_s) == (0.0, 0.0, 0.0)


def test_a_planted_click_is_found_where_it_is() -> None:
    samples = voice()
    samples[12_000] += 0.9
    assert find_defects(Sound(samples, RATE_HZ)).clicks_s == (0.5,)


def test_a_jump_of_phase_at_a_border_is_found_and_an_untouched_border_is_not() -> None:
    samples = voice(1.1)
    joined = np.concatenate([samples[:12_000], samples[12_060:]])
    found = find_defects(Sound(joined, RATE_HZ), borders=[6_000, 12_000, 18_000])
    assert found.border_clicks_s == (0.5,)


def test_zeros_in_the_middle_of_speech_are_a_dropout_and_silence_around_it_is_not() -> None:
    samples = voice()
    samples[:2_400] = samples[-2_400:] = 0.0
    samples[12_000:12_480] = 0.0
    ((begin_s, length_s),) = find_defects(Sound(samples, RATE_HZ)).dropouts_s
    assert begin_s == pytest.approx(0.5, abs=1e-3)
    assert length_s == pytest.approx(0.02, abs=1e-3)


def test_flat_tops_are_clipped_and_single_peaks_are_not() -> None:
    samples = voice()
    samples[100] = 1.0
    samples[5_000:5_012] = 1.0
    assert find_defects(Sound(samples, RATE_HZ)).clipped_share == pytest.approx(12 / 24_000)


def test_silence_counts_and_only_a_pause_between_sounds_is_a_pause() -> None:
    samples = voice()
    samples[:4_800] = 0.0
    samples[12_000:14_400] = 0.0
    found = find_defects(Sound(samples, RATE_HZ))
    assert found.silence_share == pytest.approx(0.3, abs=0.03)
    assert found.longest_pause_s == pytest.approx(0.1, abs=0.03)


def test_very_short_sounds_are_no_problem() -> None:
    for length in (1, 2, 3, 50):
        assert find_defects(Sound(np.zeros(length, np.float32), RATE_HZ), [1]).clicks_s == ()
