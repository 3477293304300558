import wave
from pathlib import Path

import numpy as np
import pytest

from antiphon.audio.wav import WavWriter, to_pcm16


def test_pcm_is_clipped_and_cut_towards_zero() -> None:
    samples = np.array([2.0, -2.0, 0.5, -0.5, 0.0], np.float32)
    assert to_pcm16(samples).tolist() == [32767, -32767, 16383, -16383, 0]


def test_a_file_has_all_pieces_and_a_right_header(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "a.wav"
    with WavWriter(path) as writer:
        for _ in range(3):
            writer.write(np.full(960, 0.25, np.float32))
        assert not path.exists()
    with wave.open(str(path)) as reader:
        assert (reader.getframerate(), reader.getnchannels(), reader.getsampwidth()) == (24_000, 1, 2)
        assert reader.getnframes() == 2_880
    assert writer.duration_s == pytest.approx(0.12)


def test_a_failure_leaves_nothing_and_keeps_the_older_file(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"older")

    def write_half() -> None:
        with WavWriter(path) as writer:
            writer.write(np.zeros(10, np.float32))
            raise RuntimeError("midway")

    with pytest.raises(RuntimeError, match="midway"):
        write_half()
    assert [file.name for file in tmp_path.iterdir()] == ["a.wav"]
    assert path.read_bytes() == b"older"


def test_no_samples_make_a_valid_empty_file(tmp_path: Path) -> None:
    with WavWriter(tmp_path / "a.wav"):
        pass
    with wave.open(str(tmp_path / "a.wav")) as reader:
        assert reader.getnframes() == 0
