"""Random media."""

import base64
import io
import wave
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from antiphon.audio.video import load_video
from antiphon.bench.datasets.made_media import make_audio, make_image, make_video
from antiphon.bench.datasets.random_mm import Bucket, RandomMediaOptions, make_random_mm, parse_buckets, parse_limits
from antiphon.bench.datasets.random_text import RandomOptions
from antiphon.core.errors import ConfigError

TEXT = RandomOptions(input_len_tokens=4, output_len_tokens=4)


def test_buckets_are_parsed_and_shares_sum_to_one() -> None:
    found = parse_buckets("{(256, 256, 1): 0.5, (720, 1280, 16): 0.0, (0, 2, 1): 1.5}")
    assert found == {Bucket(256, 256, 1): 0.25, Bucket(0, 2, 1): 0.75}
    assert [bucket.kind for bucket in (Bucket(9, 9, 1), Bucket(9, 9, 2), Bucket(0, 1, 2))] == [
        "image",
        "video",
        "audio",
    ]


@pytest.mark.parametrize("text", ["", "[]", "{}", "{(1, 2): 1}", "{(1, 2, 3): 'x'}", "{(1, 0, 1): 1}", "exit()"])
def test_other_buckets_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="bucket-config"):
        parse_buckets(text)


@pytest.mark.parametrize("text", ["", "[]", '{"image": -1}', '{"smell": 1}'])
def test_other_limits_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="limit-mm"):
        parse_limits(text)


def test_no_request_has_more_of_a_kind_than_its_limit() -> None:
    options = RandomMediaOptions(
        buckets={Bucket(8, 8, 1): 0.5, Bucket(0, 1, 1): 0.5}, items_per_request=4, limits={"audio": 1}
    )
    for request in make_random_mm(10, TEXT, options, np.random.default_rng(0)):
        kinds = Counter(part["type"] for part in request.messages[0]["content"])  # type: ignore[attr-defined]
        assert kinds["input_audio"] <= 1
        assert kinds["input_audio"] + kinds["image_url"] == 4
        assert kinds["text"] == 1


def test_made_media_are_what_they_claim(tmp_path) -> None:
    generator = np.random.default_rng(0)
    assert Image.open(io.BytesIO(make_image(30, 50, generator))).size == (50, 30)
    with wave.open(io.BytesIO(make_audio(0.5, 2, generator))) as reader:
        assert (reader.getframerate(), reader.getnchannels(), reader.getnframes()) == (48_000, 2, 24_000)
    clip = load_video(make_video(33, 48, 60, generator), times=lambda duration_s: [0.0, duration_s / 2])
    assert [frame.size for frame in clip.frames] == [(48, 32)] * 2
    assert clip.duration_s == pytest.approx(2.0, abs=0.1)


def test_sound_goes_inline_as_base64() -> None:
    options = RandomMediaOptions(buckets={Bucket(0, 1, 1): 1.0})
    (request,) = make_random_mm(1, TEXT, options, np.random.default_rng(0))
    sound = request.messages[0]["content"][0]["input_audio"]  # type: ignore[index]
    assert sound["format"] == "wav"
    assert base64.b64decode(sound["data"]).startswith(b"RIFF")
