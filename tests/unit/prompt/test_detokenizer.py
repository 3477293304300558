import pytest

from antiphon.prompt.detokenizer import Detokenizer, StopStrings
from antiphon.prompt.tokenizer import Tokenizer

TEXT = "Grüße, 你好 👋🏽 — ok"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.placeholder(600)  # every byte is a token of its own


def test_no_piece_holds_half_a_character(tokenizer: Tokenizer) -> None:
    detokenizer = Detokenizer(tokenizer)
    pieces = [detokenizer.push(token_id) for token_id in tokenizer.encode_plain(TEXT)]
    assert "".join(pieces) == TEXT
    assert "\ufffd" not in "".join(pieces)
    assert pieces[:4] == ["G", "r", "", "ü"]


def test_a_character_that_never_ends_comes_as_a_mark_at_the_end(tokenizer: Tokenizer) -> None:
    detokenizer = Detokenizer(tokenizer)
    ids = tokenizer.encode_plain("a你")[:-1]
    assert "".join(detokenizer.push(token_id) for token_id in ids) == "a"
    assert detokenizer.finish() == "\ufffd"


def test_special_tokens_have_no_text(tokenizer: Tokenizer) -> None:
    detokenizer = Detokenizer(tokenizer)
    ids = [*tokenizer.encode_plain("hi"), tokenizer.special.tts_eos]
    assert "".join(detokenizer.push(token_id) for token_id in ids) == "hi"


def test_bytes_that_are_no_text_are_let_go_after_a_while(tokenizer: Tokenizer) -> None:
    detokenizer = Detokenizer(tokenizer)
    lead = tokenizer.encode_plain("é")[0]
    shown = "".join(detokenizer.push(lead) for _ in range(200)) + detokenizer.finish()
    assert shown == "\ufffd" * 200


def test_a_stop_string_cuts_the_text_before_it() -> None:
    stops = StopStrings(["END", "stop"])
    assert [stops.push(piece) for piece in ("one E", "ND two", " three")] == ["one ", "", ""]
    assert stops.is_hit


def test_the_first_of_several_stop_strings_counts() -> None:
    stops = StopStrings(["zz", "b"])
    assert stops.push("abzz") == "a"


def test_what_only_looked_like_a_stop_string_is_shown() -> None:
    stops = StopStrings(["END"])
    assert [stops.push(piece) for piece in ("E", "N", "TER EN")] == ["", "", "ENTER "]
    assert stops.finish() == "EN"
    assert not stops.is_hit


def test_without_stop_strings_nothing_is_held() -> None:
    stops = StopStrings([])
    assert (stops.push("text"), stops.finish()) == ("text", "")
