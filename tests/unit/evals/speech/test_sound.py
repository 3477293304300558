import io
from pathlib import Path

import numpy as np
import pytest
import soundfile

from antiphon.bench.timeline import AudioArrival
from antiphon.core.errors import MediaError
from antiphon.evals.speech.sound import Sound, join_arrivals, read_sound


def arrival(payload: bytes, num_frames: int) -> AudioArrival:
    return AudioArrival(at_s=0.0, num_frames=num_frames, sample_rate_hz=24_000, payload=payload)


def test_channels_are_averaged_and_the_rate_is_kept(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.array([[0.5, -0.25], [0.25, 0.25]]), 8_000, subtype="FLOAT")
    sound = read_sound(tmp_path / "a.wav")
    assert sound.samples.tolist() == [0.125, 0.25]
    assert (sound.rate_hz, sound.duration_s) == (8_000, 2 / 8_000)


def test_a_scorers_rate_is_made_from_any_other() -> None:
    sound = Sound(np.zeros(24_000, np.float32), 24_000)
    assert len(sound.at_rate(16_000)) == 16_000
    assert sound.at_rate(24_000) is sound.samples


def test_files_that_are_no_sound_or_empty_are_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "text.wav").write_text("no sound")
    soundfile.write(tmp_path / "empty.wav", np.zeros(0), 8_000)
    for name, words in (("text.wav", "cannot be read"), ("empty.wav", "holds no sound"), ("none.wav", "cannot")):
        with pytest.raises(MediaError, match=f"{name}: {words}"):
            read_sound(tmp_path / name)


def test_raw_samples_and_wav_files_join_to_the_same_sound() -> None:
    samples = np.array([0, 1000, -32768, 32767], "<i2")
    file = io.BytesIO()
    soundfile.write(file, samples, 24_000, format="WAV", subtype="PCM_16")
    raw = join_arrivals([arrival(samples.tobytes(), 4), arrival(b"", 0), arrival(samples.tobytes(), 4)])
    packed = join_arrivals([arrival(file.getvalue(), 4)] * 2)
    assert raw is not None
    assert packed is not None
    assert raw.samples.tolist() == packed.samples.tolist()
    assert (raw.samples * 32768).tolist() == [*samples.tolist()] * 2


def test_an_answer_without_sound_has_none() -> None:
    assert join_arrivals([arrival(b"", 0)]) is None


def test_a_broken_piece_is_refused() -> None:
    with pytest.raises(MediaError, match="cannot be decoded"):
        join_arrivals([arrival(b"RIFFnothing", 4)])
