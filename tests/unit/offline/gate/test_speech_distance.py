"""Distances between recordings: none for equal ones, growing with the change, clicks found where they are."""

import numpy as np
import pytest

from antiphon.offline.gate.speech_distance import click_ratio, largest_difference, log_mel_distance, stft_distance

TIME = np.arange(24_000) / 24_000
TONE = (0.3 * np.sin(2 * np.pi * 330 * TIME)).astype(np.float32)
NOISE = np.random.default_rng(0).normal(0, 0.05, 24_000).astype(np.float32)


def test_equal_recordings_are_no_distance_apart() -> None:
    assert log_mel_distance(TONE, TONE) == (0.0, 0.0)
    assert stft_distance(TONE, TONE) == 0.0


def test_one_decibel_more_is_a_ninth_of_a_natural_logarithm() -> None:
    mean, _ = log_mel_distance(NOISE, NOISE * 10 ** (1 / 20))
    assert mean == pytest.approx(np.log(10) / 20, rel=0.01)


def test_distances_grow_with_the_noise_that_is_added() -> None:
    found = [stft_distance(TONE, TONE + level * NOISE) for level in (0.01, 0.1, 1.0)]
    assert found == sorted(found)


def test_a_click_at_a_boundary_is_found_and_one_elsewhere_is_not() -> None:
    clicked = TONE.copy()
    clicked[12_000:] += 0.5
    assert click_ratio(TONE, clicked, (12_000,)) > 5
    assert click_ratio(TONE, clicked, (6_000,)) <= 1.01


def test_another_length_is_infinitely_far_away() -> None:
    assert largest_difference({"a": TONE}, {"a": TONE[:-1]}) == float("inf")


def test_a_sample_that_is_not_a_number_is_infinitely_far_away() -> None:
    broken = TONE.copy()
    broken[5] = np.nan
    assert largest_difference({"a": TONE}, {"a": broken}) == float("inf")


def test_a_recording_shorter_than_a_window_can_be_compared() -> None:
    assert log_mel_distance(TONE[:100], TONE[:100]) == (0.0, 0.0)
