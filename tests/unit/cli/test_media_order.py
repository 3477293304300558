import pytest

from antiphon.cli.media_order import media_order


def test_media_keep_the_order_of_the_command_line() -> None:
    args = ["--image", "a.png", "--audio=b.wav", "--prompt", "x", "--image", "c.png"]
    found = media_order(args, {"image": ["a.png", "c.png"], "audio": ["b.wav"]})
    assert found == [("image", "a.png"), ("audio", "b.wav"), ("image", "c.png")]


@pytest.mark.parametrize("args", [["--prompt", "--image", "a.png"], []])
def test_arguments_that_say_something_else_give_the_order_by_kind(args: list[str]) -> None:
    found = media_order(args, {"audio": ["b.wav"], "image": ["a.png", "c.png"], "video": []})
    assert found == [("image", "a.png"), ("image", "c.png"), ("audio", "b.wav")]


def test_without_media_there_is_none() -> None:
    assert media_order(["--prompt", "x"], {"image": []}) == []
