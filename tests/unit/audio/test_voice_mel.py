import numpy as np

from antiphon.audio.voice_mel import fit_frames, voice_mel


def test_a_frame_is_20_ms_and_80_bins() -> None:
    assert voice_mel(np.ones(24_000, np.float32)).shape == (50, 80)
    assert voice_mel(np.ones(24_479, np.float32)).shape == (50, 80)


def test_silence_lies_at_the_floor() -> None:
    # The square root's 1e-9 keeps magnitudes at 3e-5; the filters, which have unit area, bring that below 1e-5.
    np.testing.assert_allclose(voice_mel(np.zeros(4_800, np.float32)), np.log(1e-5))


def test_a_short_mel_is_extended_by_its_last_frame() -> None:
    mel = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert fit_frames(mel, 5)[:, 0].tolist() == [0, 2, 4, 4, 4]


def test_a_long_mel_is_cut_at_the_end() -> None:
    mel = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert fit_frames(mel, 2)[:, 0].tolist() == [0, 2]
    assert fit_frames(mel, 3) is not None
