from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.audio.voice_features import VoiceFrontEnd
from antiphon.core.errors import CheckpointError, MediaError

RATE_HZ = 16_000


def speech(duration_s: float, seed: int = 0) -> NDArray[np.float32]:
    return (np.random.default_rng(seed).standard_normal(int(duration_s * RATE_HZ)) * 0.1).astype(np.float32)


@pytest.fixture(scope="module")
def front_end(tiny_checkpoint: Path) -> VoiceFrontEnd:
    return VoiceFrontEnd(tiny_checkpoint / "assets" / "token2wav")


def test_a_voice_has_25_codes_a_second_and_two_mel_frames_for_each(front_end: VoiceFrontEnd) -> None:
    voice = front_end.prepare((speech(1.0), RATE_HZ))
    assert voice.codes.shape == (25,)
    assert voice.codes.dtype == np.int64
    assert voice.xvector.shape == (192,)
    assert voice.mel.shape == (50, 80)


def test_a_recording_between_two_codes_has_its_mel_extended(front_end: VoiceFrontEnd) -> None:
    # 1.01 s: 101 tokenizer frames round up to 26 codes, but only 50 mel frames fit.
    voice = front_end.prepare((speech(1.01), RATE_HZ))
    assert voice.mel.shape == (52, 80)
    np.testing.assert_array_equal(voice.mel[50], voice.mel[49])


def test_codes_and_speaker_hear_the_first_channel_and_the_mel_hears_the_mean(front_end: VoiceFrontEnd) -> None:
    left, right = speech(0.6), speech(0.6, seed=1)
    stereo = front_end.prepare((np.stack((left, right)), RATE_HZ))
    mono, mixed = front_end.prepare((left, RATE_HZ)), front_end.prepare(((left + right) / 2, RATE_HZ))
    np.testing.assert_array_equal(stereo.codes, mono.codes)
    np.testing.assert_array_equal(stereo.xvector, mono.xvector)
    np.testing.assert_array_equal(stereo.mel, mixed.mel)


def test_a_file_is_read_as_its_samples(front_end: VoiceFrontEnd, tiny_checkpoint: Path) -> None:
    path = tiny_checkpoint / "assets" / "HT_ref_audio.wav"
    from_path, from_bytes = front_end.prepare(path), front_end.prepare(path.read_bytes())
    np.testing.assert_array_equal(from_path.codes, from_bytes.codes)
    np.testing.assert_array_equal(from_path.mel, from_bytes.mel)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (speech(0.2), "must have 0.5"),
        (speech(17.1), "may have 17 s at most"),
        (np.zeros(RATE_HZ, np.float32), "its first channel is silent"),
        (np.stack((np.zeros(RATE_HZ, np.float32), speech(1.0))), "its first channel is silent"),
        (np.stack((speech(1.0), -speech(1.0))), "the mean of its channels is silent"),
        (np.full(RATE_HZ, np.nan, np.float32), "NaN"),
    ],
)
def test_a_recording_that_is_no_voice_is_refused(
    front_end: VoiceFrontEnd, samples: NDArray[np.float32], message: str
) -> None:
    with pytest.raises(MediaError, match=message):
        front_end.prepare((samples, RATE_HZ))


def test_over_30_seconds_codes_are_joined_from_windows(
    front_end: VoiceFrontEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []

    def tokenize(mel: NDArray[np.float32]) -> NDArray[np.int64]:
        lengths.append(mel.shape[1])
        return np.full(mel.shape[1] // 4, len(lengths))

    monkeypatch.setattr(front_end, "_tokenize", tokenize)
    codes = front_end.codes(np.zeros((128, 4_000), np.float32))
    assert lengths == [3_000, 1_400]
    assert np.bincount(codes).tolist() == [0, 700, 300]


def test_a_missing_graph_is_named_when_it_is_needed(tmp_path: Path) -> None:
    front_end = VoiceFrontEnd(tmp_path)
    with pytest.raises(CheckpointError, match=r"speech_tokenizer_v2_25hz\.onnx: no such file"):
        front_end.prepare((speech(0.6), RATE_HZ))


def test_a_graph_that_is_none_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "campplus.onnx").write_bytes(b"not a graph")
    with pytest.raises(CheckpointError, match=r"campplus\.onnx: not a usable ONNX graph") as caught:
        VoiceFrontEnd(tmp_path).xvector(np.zeros((5, 80), np.float32))
    assert "\n" not in str(caught.value)


def test_a_graph_with_other_inputs_is_refused(tmp_path: Path, tiny_checkpoint: Path) -> None:
    graph = tiny_checkpoint / "assets" / "token2wav" / "campplus.onnx"
    (tmp_path / "speech_tokenizer_v2_25hz.onnx").write_bytes(graph.read_bytes())
    with pytest.raises(CheckpointError, match="its inputs have ranks"):
        VoiceFrontEnd(tmp_path).codes(np.zeros((128, 40), np.float32))
