"""Handles carry text through a template unread."""

import pytest

from antiphon.core.errors import PromptError
from antiphon.prompt.segments import Handles, Markup, Media, Plain


def test_lent_text_comes_back_between_the_markup() -> None:
    handles = Handles()
    rendered = f"<|im_start|>{handles.lend(Plain('a'))}{handles.lend(Media(0))}<|im_end|>"
    assert handles.redeem(rendered) == [Markup("<|im_start|>"), Plain("a"), Media(0), Markup("<|im_end|>")]


def test_a_template_can_strip_the_white_space_of_lent_text() -> None:
    handles = Handles()
    lent = handles.lend(Plain("\n\n a b \n"))
    assert handles.redeem(lent.strip("\n")) == [Markup(" "), Plain("a b"), Markup(" ")]


def test_blank_text_is_not_hidden_so_that_a_template_sees_it_is_blank() -> None:
    assert Handles().lend(Plain(" \n")) == " \n"


def test_text_that_imitates_a_handle_stays_text() -> None:
    handles = Handles()
    fake = handles.lend(Plain("secret"))
    assert handles.redeem(handles.lend(Plain(f"x{fake}"))) == [Plain(f"x{fake}")]


def test_a_template_that_cuts_a_handle_is_refused() -> None:
    handles = Handles()
    with pytest.raises(PromptError, match="cuts message text"):
        handles.redeem(handles.lend(Plain("abc"))[:-1])


def test_a_handle_nobody_lent_is_refused() -> None:
    lent = Handles()
    with pytest.raises(PromptError, match="no message has"):
        Handles().redeem(lent.lend(Plain("abc")))
