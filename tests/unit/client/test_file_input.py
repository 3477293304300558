from base64 import b64decode
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from antiphon.client import audio_data_url, read_pcm16_wav, reference_audio_data_url, write_pcm16_wav
from antiphon.client.file_run.input import read_input, stack
from antiphon.core.errors import MediaError


def picture(text):
    return Image.open(BytesIO(b64decode(text)))


def test_a_clip_gives_sound_and_one_picture_a_second(tmp_path, encode_video):
    path = tmp_path / "clip.mp4"
    path.write_bytes(encode_video(seconds=3, fps=4, sound=np.zeros(48_000, np.float32)))
    source = read_input(path)
    assert len(source.frames) == 3
    assert source.composites == ()
    assert source.duration_s == pytest.approx(3, abs=0.2)
    assert picture(source.frames[0]).size == (64, 48)


def test_stacked_pictures_come_beside_the_first_of_each_second(tmp_path, encode_video):
    path = tmp_path / "clip.mp4"
    path.write_bytes(encode_video(seconds=2, fps=8, sound=np.zeros(32_000, np.float32)))
    source = read_input(path, frame_max_side=32, num_stacked=4)
    assert (len(source.frames), len(source.composites)) == (2, 2)
    assert picture(source.composites[0]).size == (2 * 32 + 6, 2 * 24 + 6)


def test_a_clip_without_sound_is_refused(tmp_path, encode_video):
    path = tmp_path / "clip.mp4"
    path.write_bytes(encode_video(seconds=1, fps=4))
    with pytest.raises(MediaError, match="holds no sound"):
        read_input(path)


@pytest.mark.parametrize(
    ("count", "size", "expected"),
    [
        (1, (60, 40), (60, 40)),
        (2, (60, 40), (60, 86)),
        (2, (40, 60), (86, 60)),
        (3, (90, 30), (90, 102)),
        (5, (10, 10), (74, 10)),
    ],
)
def test_pictures_are_laid_out_near_a_square(count, size, expected):
    assert stack([Image.new("RGB", size)] * count).size == expected


def test_a_smaller_picture_is_framed_in_white_and_lines_are_black():
    whole = stack([Image.new("RGB", (20, 20), "red"), Image.new("RGB", (10, 20), "red")])
    assert whole.getpixel((22, 10)) == (0, 0, 0)
    assert whole.getpixel((27, 10)) == (255, 255, 255)


def test_sound_files_go_there_and_back(tmp_path):
    path = tmp_path / "a.wav"
    samples = (np.sin(np.arange(24_000) / 20) * 20_000).astype("<i2")
    write_pcm16_wav(path, samples.tobytes(), sample_rate_hz=24_000)
    assert len(read_pcm16_wav(path)) == 32_000
    assert abs(len(read_pcm16_wav(path, sample_rate_hz=8000)) - 16_000) <= 4


def test_data_urls_name_the_file_that_is_missing(tmp_path):
    assert audio_data_url(b"abc") == "data:audio/wav;base64,YWJj"
    assert reference_audio_data_url(None) is None
    with pytest.raises(MediaError, match=r"none\.wav"):
        audio_data_url(Path(tmp_path / "none.wav"))
