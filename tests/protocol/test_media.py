"""Media of requests: formats, limits, and hostile files."""

import base64
import io
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from antiphon.audio.wav import to_pcm16
from antiphon.pipeline.intake import prepare_inputs

Server = Any
Url = Callable[..., str]


def image(url: str) -> dict[str, object]:
    return {"type": "image_url", "image_url": {"url": url}}


def audio(url: str) -> dict[str, object]:
    return {"type": "audio_url", "audio_url": {"url": url}}


def video(url: str) -> dict[str, object]:
    return {"type": "video_url", "video_url": {"url": url}}


def ask(server: Server, *parts: dict[str, object], **fields: object) -> Any:
    return server.chat([*parts, {"type": "text", "text": "What?"}], modalities=["text"], **fields)


def test_every_kind_of_part_reaches_the_prompt_in_order(
    server: Server, data_url: Url, encode_image: Any, encode_audio: Any, encode_video: Any, tone: Any
) -> None:
    clip = encode_audio(tone(1.0))
    inline = {"type": "input_audio", "input_audio": {"data": data_url(clip).partition(",")[2], "format": "wav"}}
    response = ask(
        server, image(data_url(encode_image())), audio(data_url(clip)), inline, video(data_url(encode_video(seconds=2)))
    )
    assert response.status_code == 200, response.text
    prompt = server.pipeline.requests[0].prompt
    marks = [mark for mark in prompt.text.replace("(", " ").split() if mark.startswith("<")]
    assert prompt.text.count("<image>./</image>") == 3
    assert prompt.text.count("<audio>./</audio>") == 2
    assert prompt.text.index("<image>") < prompt.text.index("<audio>")
    assert marks
    assert len(prompt.clips) == 1  # one message, joined


def test_the_bare_url_of_the_reference_is_accepted(server: Server, data_url: Url, encode_image: Any) -> None:
    assert ask(server, {"type": "image_url", "image_url": data_url(encode_image())}).status_code == 200


def test_too_many_of_a_kind_are_refused_before_any_is_read(server: Server) -> None:
    response = ask(server, *[image("data:,never read")] * 4)
    assert response.status_code == 400
    assert "4 image inputs; at most 3" in server.error(response)["message"]
    response = ask(server, *[video("data:,never read")] * 2)
    assert "2 video inputs; at most 1" in server.error(response)["message"]


@pytest.mark.parametrize("size", [(1, 1), (1, 2000), (2000, 1)])
def test_c40_tiny_pictures_are_answered(
    server: Server, data_url: Url, encode_image: Any, size: tuple[int, int]
) -> None:
    assert ask(server, image(data_url(encode_image(size)))).status_code in (200, 400)
    assert ask(server, image(data_url(encode_image()))).status_code == 200


@pytest.mark.parametrize("size", [(10_000, 20), (20, 10_000)])
def test_c43_extreme_shapes_have_bounded_tokens(
    server: Server, data_url: Url, encode_image: Any, size: tuple[int, int]
) -> None:
    assert ask(server, image(data_url(encode_image(size)))).status_code == 200
    assert len(server.pipeline.requests[0].prompt.ids) < 1000


def test_c44_picture_modes_are_converted(server: Server, data_url: Url, encode_image: Any) -> None:
    exif = Image.Exif()
    exif[274] = 6  # lying on its side
    pictures = [
        encode_image(mode="P", transparency=3),
        encode_image(mode="I;16"),
        encode_image(mode="CMYK", form="JPEG"),
        encode_image(form="JPEG", exif=exif),
        encode_image(form="GIF", save_all=True, append_images=[Image.new("RGB", (32, 24))] * 3),
        encode_image(form="WEBP"),
        encode_image(mode="LA"),
    ]
    for content in pictures:
        assert ask(server, image(data_url(content))).status_code == 200


def test_c44_a_truncated_picture_is_refused(server: Server, data_url: Url) -> None:
    file = io.BytesIO()
    Image.effect_noise((200, 200), 50).convert("RGB").save(file, "JPEG")
    response = ask(server, image(data_url(file.getvalue()[:3000])))
    assert response.status_code == 400
    assert "damaged or truncated" in server.error(response)["message"]


def test_c45_c107_a_picture_of_too_many_pixels_is_refused_from_its_header(
    server: Server, data_url: Url, encode_image: Any
) -> None:
    small = encode_image((8, 8))
    for side in (12_000, 60_000):
        header = small[16:24]
        assert header == struct.pack(">II", 8, 8)
        huge = small.replace(header, struct.pack(">II", side, side), 1)
        response = ask(server, image(data_url(huge)))
        assert response.status_code == 400
    assert ask(server, image(data_url(small))).status_code == 200


def test_c107_of_an_animation_one_frame_is_decoded(server: Server, data_url: Url, encode_image: Any) -> None:
    frames = [Image.new("L", (4, 4), shade % 255) for shade in range(2_000)]
    animation = encode_image((4, 4), form="GIF", save_all=True, append_images=frames)
    assert ask(server, image(data_url(animation))).status_code == 200


def wav_with(sizes: tuple[int, int], samples: np.ndarray) -> bytes:
    body = to_pcm16(samples).tobytes()
    riff, data = sizes
    return (
        struct.pack("<4sI4s4sIHHIIHH", b"RIFF", riff, b"WAVE", b"fmt ", 16, 1, 1, 16_000, 32_000, 2, 16)
        + struct.pack("<4sI", b"data", data)
        + body
    )


@pytest.mark.parametrize("size", [0, 0xFFFF_FFFF, 10_000_000])
def test_c29_sizes_of_a_wav_header_are_not_believed(server: Server, data_url: Url, tone: Any, size: int) -> None:
    response = ask(server, audio(data_url(wav_with((size, size), tone(1.0)))))
    if response.status_code == 200:
        assert abs(len(server.pipeline.requests[0].prompt.clips[0]) - 16_000) < 400
    else:
        assert size == 0
        assert "empty" in server.error(response)["message"] or "sound" in server.error(response)["message"]


@pytest.mark.parametrize(
    ("rate_hz", "channels", "subtype"),
    [
        *((16_000, 1, kind) for kind in ("PCM_U8", "PCM_24", "FLOAT", "ULAW", "PCM_16")),
        *(
            (44_100, 2, "PCM_16"),
            (48_000, 6, "PCM_16"),
            (8_000, 1, "PCM_16"),
            (11_025, 1, "PCM_16"),
            (96_000, 1, "FLOAT"),
        ),
    ],
)
def test_c30_flavours_of_wav_are_mono_at_the_models_rate(
    server: Server, data_url: Url, encode_audio: Any, tone: Any, rate_hz: int, channels: int, subtype: str
) -> None:
    samples = np.repeat(tone(1.0, rate_hz)[:, None], channels, axis=1)
    assert ask(server, audio(data_url(encode_audio(samples, rate_hz, "WAV", subtype)))).status_code == 200
    assert abs(len(server.pipeline.requests[0].prompt.clips[0]) - 16_000) < 20


@pytest.mark.parametrize("as_voice", [False, True])
def test_c32_empty_and_broken_sound_is_refused_and_silence_is_not(
    server: Server, data_url: Url, encode_audio: Any, as_voice: bool
) -> None:
    def send(samples: np.ndarray) -> Any:
        url = data_url(encode_audio(samples.astype(np.float32), 16_000, "WAV", "FLOAT"))
        return server.chat(ref_audio=url) if as_voice else ask(server, audio(url))

    for bad in (np.zeros(0), np.zeros(1), np.full(16_000, np.nan)):
        response = send(bad)
        assert response.status_code == 400
        assert server.error(response)["message"].startswith("ref_audio" if as_voice else "messages[0].content[0]")
    assert send(np.zeros(16_000)).status_code == 200


def test_c33_clips_around_thirty_seconds_are_taken(server: Server, data_url: Url, encode_audio: Any, tone: Any) -> None:
    server.serve(media_limits=server.services.model.media_limits.__class__(audio=10))
    clips = [audio(data_url(encode_audio(tone(seconds)))) for seconds in (29.9, 30.0, 30.1, 61.0)]
    assert ask(server, *clips).status_code == 200
    assert abs(len(server.pipeline.requests[0].prompt.clips[0]) / 16_000 - 151.1) < 0.5


def test_c107_an_hour_of_opus_is_cut_at_the_limit(server: Server, data_url: Url, encode_audio: Any) -> None:
    silence = np.zeros(400 * 8_000, np.float32)
    response = ask(server, audio(data_url(encode_audio(silence, 8_000, "OGG", "OPUS"))))
    assert response.status_code == 400
    assert "longer than 300 s" in server.error(response)["message"]


@pytest.mark.parametrize(
    "options",
    [
        {"seconds": 0.2, "fps": 5},
        {"size": (641, 359)},
        {"pts": [0, 1, 5, 6, 20, 21, 22, 30, 31, 40]},
        {"codec": "libx264", "pixels": "yuv420p10le"},
    ],
)
def test_c48_odd_clips_are_taken_or_refused(
    server: Server, data_url: Url, encode_video: Any, options: dict[str, Any]
) -> None:
    if options.get("size") == (641, 359):
        options = {**options, "codec": "mjpeg", "container": "avi", "pixels": "yuvj420p"}
    response = ask(server, video(data_url(encode_video(**options))))
    assert response.status_code in (200, 400)
    assert response.status_code == 200 or "messages[0]" in server.error(response)["message"]


def test_c47_the_sound_of_a_video_is_used_unless_it_is_not_wanted(
    server: Server, data_url: Url, encode_video: Any, tone: Any
) -> None:
    clip = video(data_url(encode_video(seconds=2, sound=tone(2.0))))
    for wanted, count in ((None, 2), (True, 2), (False, 0)):
        options = {} if wanted is None else {"mm_processor_kwargs": {"use_audio_in_video": wanted}}
        assert ask(server, clip, **options).status_code == 200
        assert server.pipeline.requests[-1].prompt.text.count("<audio>") == count


def test_the_number_of_frames_can_be_limited(server: Server, data_url: Url, encode_video: Any) -> None:
    clip = video(data_url(encode_video(seconds=4)))
    assert ask(server, clip, media_io_kwargs={"video": {"num_frames": 2}}).status_code == 200
    assert server.pipeline.requests[0].prompt.text.count("<image>") == 2
    response = ask(server, clip, media_io_kwargs={"video": {"fps": 2}})
    assert "only 1 is possible" in server.error(response)["message"]


def test_slices_follow_the_request(server: Server, data_url: Url, encode_image: Any) -> None:
    picture = image(data_url(encode_image((1400, 1400))))
    counts = []
    for slices in (1, 9):
        ask(server, picture, mm_processor_kwargs={"max_slice_nums": slices})
        counts.append(len(server.pipeline.requests[-1].prompt.strips))
    assert counts[0] == 1 < counts[1]
    assert ask(server, picture, mm_processor_kwargs={"max_slice_nums": 0}).status_code in (200, 400)
    assert ask(server, picture, mm_processor_kwargs={"max_slice_nums": 1000}).status_code == 400


def test_c36_a_voice_that_cannot_be_read_is_never_replaced(server: Server, data_url: Url) -> None:
    response = server.chat(ref_audio=data_url(b"not a sound"))
    assert response.status_code == 400
    assert server.error(response)["message"].startswith("ref_audio")
    assert server.voices.sources == []


def test_c36_each_request_gets_the_voice_it_names(server: Server, data_url: Url, encode_audio: Any, tone: Any) -> None:
    quiet, loud = (data_url(encode_audio(gain * tone(1.0))) for gain in (0.5, 2.0))
    for voice in (quiet, loud, None, quiet):
        assert server.chat(ref_audio=voice).status_code == 200
    keys = [request.voice.key for request in server.pipeline.requests]
    assert keys[0] == keys[3]
    assert len(set(keys)) == 3
    nested = server.chat(extra_body={"ref_audio": loud})
    assert nested.status_code == 200
    assert server.pipeline.requests[-1].voice.key == keys[1]


def test_c111_equal_samples_at_different_rates_are_different_voices(
    server: Server, data_url: Url, encode_audio: Any, tone: Any
) -> None:
    for rate_hz in (16_000, 24_000):
        server.chat(ref_audio=data_url(encode_audio(tone(1.0), rate_hz)))
    assert [source[1] for source in server.voices.sources] == [16_000, 24_000]


@pytest.mark.parametrize("kind", ["image", "audio", "video"])
def test_c112_a_broken_file_is_refused_without_the_inside(server: Server, data_url: Url, kind: str) -> None:
    part = {"image": image, "audio": audio, "video": video}[kind](data_url(b"\x89PNG\r\n\x1a\n" + bytes(200)))
    response = ask(server, part)
    assert response.status_code == 400
    message = server.error(response)["message"]
    assert message.startswith(f"messages[0].content[0]: the {kind}")
    for word in ("object at 0x", "/", "Error(", "Traceback", "BytesIO"):
        assert word not in message.replace("image/", "")


@pytest.mark.parametrize(
    "url", ["data:audio/wav;base64,@@@", "data:nothing", "nothing", "", "ftp://a/b", "javascript:1"]
)
def test_bad_urls_are_refused(server: Server, url: str) -> None:
    response = ask(server, audio(url))
    assert response.status_code == 400
    assert server.error(response)["message"].startswith("messages[0].content[0]")


def test_base64_may_be_wrapped_in_lines(server: Server, data_url: Url, encode_audio: Any, tone: Any) -> None:
    written = data_url(encode_audio(tone(0.5))).partition(",")[2]
    lines = "\r\n".join(written[place : place + 76] for place in range(0, len(written), 76))
    part = {"type": "input_audio", "input_audio": {"data": lines.rstrip("="), "format": "wav"}}
    assert ask(server, part).status_code == 200


def test_c48_thousands_of_pictures_in_one_video_address_are_not_decoded(
    server: Server, encode_image: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[object] = []
    monkeypatch.setattr("PIL.Image.open", lambda *arguments, **_: opened.append(arguments))
    frame = base64.b64encode(encode_image((2, 2), form="JPEG")).decode()
    for address in (f"data:video/jpeg;base64,{','.join([frame] * 5_000)}", f"data:video/jpeg;base64,{frame * 5_000}"):
        response = ask(server, video(address))
        assert response.status_code == 400
        assert len(server.error(response)["message"]) < 400
    assert not opened


def test_c111_equal_bytes_of_another_size_or_palette_are_other_pictures(server: Server, data_url: Url) -> None:
    pixels = bytes(range(64))
    pictures = [Image.frombytes("P", size, pixels) for size in ((8, 8), (4, 16), (8, 8))]
    for picture, first in zip(pictures, (0, 0, 90), strict=True):
        picture.putpalette([(first + index) % 256 for index in range(768)])
    digests = set()
    for picture in pictures:
        file = io.BytesIO()
        picture.save(file, "PNG")
        assert ask(server, image(data_url(file.getvalue()))).status_code == 200
        inputs = prepare_inputs(server.pipeline.requests[-1].prompt, num_mel_bins=80)
        digests.add(tuple(item.digest for item in inputs.images))
    assert len(digests) == 3
