import numpy as np

from antiphon.audio.fbank import centred_fbank, fbank


def noise(num_samples: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return (np.random.default_rng(3).standard_normal(num_samples) * 0.1).astype(np.float32)


def test_only_whole_windows_become_rows() -> None:
    assert fbank(noise(400), 16_000).shape == (1, 80)
    assert fbank(noise(559), 16_000).shape == (1, 80)
    assert fbank(noise(560), 16_000).shape == (2, 80)
    assert fbank(noise(399), 16_000).shape == (0, 80)


def test_the_same_sound_has_the_same_features() -> None:
    np.testing.assert_array_equal(fbank(noise(4_000), 16_000), fbank(noise(4_000), 16_000))


def test_silence_lies_at_kaldis_floor() -> None:
    np.testing.assert_allclose(fbank(np.zeros(800, np.float32), 16_000), np.log(np.finfo(np.float32).eps), atol=1e-4)


def test_centred_features_have_no_mean_over_time() -> None:
    np.testing.assert_allclose(centred_fbank(noise(8_000), 16_000).mean(axis=0), 0.0, atol=1e-5)
