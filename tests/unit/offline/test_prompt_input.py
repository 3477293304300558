from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from antiphon.core.errors import AntiphonError, MediaError, PromptError
from antiphon.offline.prompt_input import parse_prompt
from antiphon.prompt.messages import AudioPart, ImagePart, Part, TextPart

CLIP = (np.full(16_000, 0.1, np.float32), 16_000)
PICTURE = Image.new("RGB", (8, 8), (9, 9, 9))
TEMPLATED = "<|im_start|>user\n(<image>./</image>)A(<audio>./</audio>)B<|im_end|>\n<|im_start|>assistant\n"


def kinds(parts: tuple[Part, ...]) -> str:
    letters = {TextPart: "T", ImagePart: "I", AudioPart: "A"}
    return "".join(next(letter for kind, letter in letters.items() if isinstance(part, kind)) for part in parts)


def test_a_plain_string_is_one_user_message() -> None:
    parsed = parse_prompt("Hello")
    assert [(message.role, message.parts) for message in parsed.messages] == [("user", (TextPart("Hello"),))]
    assert (parsed.wants_text, parsed.wants_audio, parsed.is_templated) == (True, True, False)


def test_media_of_a_plain_prompt_stand_in_front_of_its_text() -> None:
    parsed = parse_prompt({"prompt": "Hi", "multi_modal_data": {"audio": CLIP, "image": [PICTURE, PICTURE]}})
    assert kinds(parsed.messages[0].parts) == "IIAT"


def test_a_templated_prompt_has_its_media_at_their_placeholders() -> None:
    parsed = parse_prompt({"prompt": TEMPLATED, "multi_modal_data": {"audio": CLIP, "image": PICTURE}})
    assert parsed.is_templated
    assert kinds(parsed.messages[0].parts) == "TITAT"
    assert parsed.messages[0].parts[2] == TextPart("A")


@pytest.mark.parametrize(
    ("media", "reason"),
    [
        ({"audio": CLIP}, r"more image placeholders than multi_modal_data has entries \(0\)"),
        ({"audio": CLIP, "image": [PICTURE, PICTURE]}, "more entries for 'image' than the prompt has placeholders"),
    ],
)
def test_placeholders_and_media_must_agree(media: dict[str, object], reason: str) -> None:
    with pytest.raises(PromptError, match=reason):
        parse_prompt({"prompt": TEMPLATED, "multi_modal_data": media})


def test_messages_keep_roles_and_the_order_of_their_parts() -> None:
    content = [
        {"type": "text", "text": "look"},
        {"type": "image", "image": PICTURE},
        {"type": "audio", "audio": CLIP},
        {"type": "image", "image": np.zeros((4, 4, 3), np.uint8)},
    ]
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": content}]
    parsed = parse_prompt({"messages": messages})
    assert [message.role for message in parsed.messages] == ["system", "user"]
    assert kinds(parsed.messages[1].parts) == "TIAI"


def test_special_tokens_in_messages_are_not_a_template() -> None:
    assert not parse_prompt({"messages": [{"role": "user", "content": "<|im_start|>system"}]}).is_templated


def test_frames_of_a_video_are_one_second_apart_and_not_sliced() -> None:
    parsed = parse_prompt({"prompt": "What?", "multi_modal_data": {"video": np.zeros((3, 8, 8, 3), np.uint8)}})
    parts = parsed.messages[0].parts
    assert kinds(parts) == "IIIT"
    assert all(part.max_slices == 1 for part in parts if isinstance(part, ImagePart))
    assert parsed.use_image_id is False


def test_a_video_file_weaves_frames_and_sound(
    encode_video: Callable[..., bytes], tone: Callable[..., NDArray[np.float32]]
) -> None:
    clip = encode_video(seconds=2, sound=tone(2.0))
    with_sound = parse_prompt({"prompt": "What?", "multi_modal_data": {"video": clip}})
    assert kinds(with_sound.messages[0].parts) == "IAIAT"
    silent = {"use_audio_in_video": False}
    without = parse_prompt({"prompt": "?", "multi_modal_data": {"video": clip}, "mm_processor_kwargs": silent})
    assert kinds(without.messages[0].parts) == "IIT"


def test_clips_that_will_be_joined_are_filled_up() -> None:
    odd = (np.full(2_881, 0.1, np.float32), 16_000)
    parsed = parse_prompt({"prompt": "Hi", "multi_modal_data": {"audio": [odd, odd]}})
    lengths = [len(part.samples) for part in parsed.messages[0].parts if isinstance(part, AudioPart)]
    assert lengths == [3_200, 2_881]


def test_options_are_passed_on() -> None:
    parsed = parse_prompt(
        {
            "prompt": "Hi",
            "modalities": ["text"],
            "mm_processor_kwargs": {"max_slice_nums": 2, "use_image_id": True},
            "chat_template_kwargs": {"enable_thinking": True, "use_tts_template": False},
        }
    )
    assert (parsed.wants_text, parsed.wants_audio) == (True, False)
    assert (parsed.max_slices, parsed.use_image_id) == (2, True)
    assert (parsed.enable_thinking, parsed.use_tts_template) == (True, False)


def user(content: object) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": content}]}


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        (5, "a prompt is int"),
        ({}, "either 'prompt' or 'messages'"),
        ({"prompt": "x", "messages": []}, "either 'prompt' or 'messages'"),
        ({"prompt": "x", "temperature": 1}, "unknown key 'temperature'"),
        ({"prompt": " "}, "the prompt is empty"),
        ({"prompt": 5}, "must be a string"),
        ({"prompt": "a\udcff"}, "not valid Unicode at character 1"),
        ({"prompt": "x", "multi_modal_data": {"images": 1}}, "unknown key 'images'; known: image, audio, video"),
        ({"prompt": "x", "multi_modal_data": {"image": 5}}, "image: is int"),
        ({"prompt": "x", "multi_modal_data": {"audio": np.zeros(5)}}, "audio: is ndarray"),
        ({"prompt": "x", "multi_modal_data": {"video": []}}, None),
        ({"prompt": "x", "modalities": []}, "modalities is"),
        ({"prompt": "x", "modalities": "text"}, "modalities is 'text'"),
        ({"prompt": "x", "modalities": ["video"]}, "modalities holds 'video'"),
        ({"prompt": "x", "mm_processor_kwargs": {"fps": 2}}, "unknown key 'fps'"),
        ({"prompt": "x", "mm_processor_kwargs": {"max_slice_nums": 0}}, "max_slice_nums is 0"),
        ({"prompt": "x", "chat_template_kwargs": {"enable_thinking": "no"}}, "enable_thinking is 'no'"),
        ({"messages": []}, "at least one message"),
        ({"messages": [{"role": "system", "content": "s"}]}, "no user message"),
        ({"messages": ["hi"]}, r"messages\[0\] is str"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "role is 'robot'; known: system, user"),
        ({"messages": [{"role": "user", "content": "x", "name": "y"}]}, "unknown key 'name'"),
        (user(None), "content must be"),
        (user([]), "at least one part"),
        (user([{"type": "input_audio"}]), r"content\[0\]: type is 'input_audio'; known: text, image, audio, video"),
        (user([{"type": "image"}]), "key 'image' is missing"),
        (user([{"type": "text", "text": 5}]), "text is int"),
        ({"prompt": "x", "ref_audio": 5}, "ref_audio: is int"),
    ],
)
def test_what_is_not_understood_is_refused_by_name(prompt: object, reason: str | None) -> None:
    if reason is None:
        parse_prompt(prompt)  # type: ignore[arg-type]
        return
    with pytest.raises(AntiphonError, match=reason) as caught:
        parse_prompt(prompt)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_a_reference_voice_is_decoded_at_once(tmp_path: Path) -> None:
    with pytest.raises(MediaError, match="No such file"):
        parse_prompt({"prompt": "x", "ref_audio": tmp_path / "absent.wav"})
