import pytest

from antiphon.serving.thoughts import ThoughtSplitter


def split(pieces: list[str]) -> tuple[str, str]:
    splitter = ThoughtSplitter()
    parts = [*map(splitter.push, pieces), splitter.finish()]
    return "".join(part.said for part in parts), "".join(part.thought for part in parts)


@pytest.mark.parametrize(
    ("text", "said", "thought"),
    [
        ("Hello", "Hello", ""),
        ("<think>\nhm\n</think>\n\nHello", "Hello", "hm\n"),
        ("a <think>b</think> c", "a  c", "b"),
        ("<think>never ends", "", "never ends"),
        ("1 < 2 <thi", "1 < 2 <thi", ""),
        ("</think>x", "</think>x", ""),
        ("<think></think>", "", ""),
        ("", "", ""),
    ],
)
def test_it_makes_no_difference_how_the_text_is_cut(text: str, said: str, thought: str) -> None:
    assert split([text]) == (said, thought)
    assert split(list(text)) == (said, thought)


def test_text_that_cannot_be_a_tag_is_not_held_back() -> None:
    splitter = ThoughtSplitter()
    assert splitter.push("a <b").said == "a <b"
    assert splitter.push("a <th").said == "a "
    assert splitter.push("is>").said == "<this>"
