import numpy as np
import pytest

from antiphon.audio.sinc_resample import sinc_resample


def tone(rate_hz: int, duration_s: float, tone_hz: float = 440.0) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.sin(2 * np.pi * tone_hz * np.arange(int(rate_hz * duration_s)) / rate_hz).astype(np.float32)


@pytest.mark.parametrize(("before", "after"), [(16_000, 24_000), (44_100, 16_000), (48_000, 24_000), (44_101, 16_000)])
def test_a_tone_stays_the_same_tone(before: int, after: int) -> None:
    resampled = sinc_resample(tone(before, 0.3), before, after)
    expected = tone(after, 0.4)[: len(resampled)]
    inner = slice(200, len(resampled) - 200)
    np.testing.assert_allclose(resampled[inner], expected[inner], atol=0.01)


def test_the_length_is_rounded_up() -> None:
    assert len(sinc_resample(np.zeros(100, np.float32), 44_100, 16_000)) == 37
    assert len(sinc_resample(np.zeros(7, np.float32), 16_000, 24_000)) == 11


def test_a_pitch_above_the_new_nyquist_frequency_is_removed() -> None:
    resampled = sinc_resample(tone(48_000, 0.2, 11_000.0), 48_000, 16_000)
    assert np.abs(resampled[100:-100]).max() < 0.01


def test_the_same_rate_changes_nothing() -> None:
    samples = tone(16_000, 0.1)
    assert sinc_resample(samples, 16_000, 16_000) is samples


def test_long_inputs_are_computed_in_pieces_without_a_seam() -> None:
    samples = np.random.default_rng(0).standard_normal(60_000).astype(np.float32)
    whole = sinc_resample(samples, 16_000, 24_000)
    part = sinc_resample(samples[40_000:], 16_000, 24_000)
    np.testing.assert_allclose(whole[60_050:], part[50:], atol=1e-6)


def test_taps_are_the_windowed_sinc_of_the_specification() -> None:
    impulse = np.zeros(41, np.float32)
    impulse[20] = 1.0
    taps = sinc_resample(impulse, 16_000, 24_000)
    time = (np.arange(len(taps)) / 1.5 - 20) * 0.99  # in zero crossings of a low-pass at 0.99 of the old Nyquist
    inside = np.abs(time) < 6
    expected = np.where(inside, np.sinc(time) * np.cos(np.pi * time / 12) ** 2, 0.0) * 0.99
    np.testing.assert_allclose(taps, expected, atol=1e-6)
