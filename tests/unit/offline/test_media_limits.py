import pytest

from antiphon.config.deploy import MediaLimits
from antiphon.core.errors import PromptError
from antiphon.offline.media_limits import check_media_limits

LIMITS = MediaLimits(image=2, audio=1, video=0)


def message(*kinds: str) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": [{"type": kind, kind: "x"} for kind in kinds]}]}


@pytest.mark.parametrize(
    "prompt",
    ["Hello", message("image", "image", "audio", "text"), {"prompt": "a", "multi_modal_data": {"image": ["a", "b"]}}],
)
def test_prompts_within_the_limits_pass(prompt: object) -> None:
    check_media_limits(prompt, LIMITS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        (message("image", "image", "image"), "3 media of kind image; at most 2"),
        (message("video"), "1 media of kind video; at most 0"),
        ({"prompt": "a", "multi_modal_data": {"audio": [b"1", b"2"]}}, "2 media of kind audio; at most 1"),
    ],
)
def test_more_media_than_allowed_are_refused(prompt: object, reason: str) -> None:
    with pytest.raises(PromptError, match=reason):
        check_media_limits(prompt, LIMITS)  # type: ignore[arg-type]


@pytest.mark.parametrize("prompt", [{"messages": 3}, {"messages": ["x", {"content": 1}]}, {"multi_modal_data": 1}, 7])
def test_what_is_no_prompt_is_left_to_the_parser(prompt: object) -> None:
    check_media_limits(prompt, LIMITS)  # type: ignore[arg-type]
