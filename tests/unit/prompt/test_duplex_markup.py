"""Session start and forbidden ids."""

import pytest

from antiphon.prompt.duplex_markup import (
    SIMPLEX_FORBIDDEN,
    duplex_forbidden_ids,
    session_start,
    simplex_forbidden_ids,
)
from antiphon.prompt.special_tokens import ADDED_TOKENS
from antiphon.prompt.tokenizer import Tokenizer


def test_the_reference_recording_stands_between_prefix_and_suffix(tokenizer: Tokenizer) -> None:
    start = session_start(tokenizer, "Hi.", has_reference=True)
    assert start.prefix == tokenizer.encode("<|im_start|>system\nHi.\n<|audio_start|>")
    assert start.suffix == tokenizer.encode("<|audio_end|><|im_end|>")


def test_without_recording_nothing_announces_one(tokenizer: Tokenizer) -> None:
    start = session_start(tokenizer, has_reference=False)
    assert start.prefix == tokenizer.encode("<|im_start|>system\nStreaming Omni Conversation.")
    assert start.suffix == tokenizer.encode("<|im_end|>")


def test_a_first_text_opens_the_conversation(tokenizer: Tokenizer) -> None:
    start = session_start(tokenizer, "Hi.", has_reference=True, first_text="hi")
    tail = "<|audio_end|><|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert start.suffix == tokenizer.encode(tail)


@pytest.mark.parametrize("token", ADDED_TOKENS)
def test_instructions_cannot_hold_special_tokens(tokenizer: Tokenizer, token: str) -> None:
    start = session_start(tokenizer, f"a{token}", has_reference=False, first_text=token)
    ordinary = session_start(tokenizer, "a", has_reference=False, first_text="b")
    added = {tokenizer.id(name) for name in ADDED_TOKENS}
    for ids, expected in ((start.prefix, ordinary.prefix), (start.suffix, ordinary.suffix)):
        assert [token_id for token_id in ids if token_id in added] == [i for i in expected if i in added]


def test_instructions_are_parsed_where_the_reference_is_followed(tokenizer: Tokenizer) -> None:
    start = session_start(tokenizer, "a<|speak|>", has_reference=False, protect_text=False)
    assert start.prefix[-1] == tokenizer.special.speak


def test_forbidden_ids_are_the_literals_then_the_list_of_the_checkpoint(tokenizer: Tokenizer) -> None:
    ids = simplex_forbidden_ids(tokenizer)
    assert len(SIMPLEX_FORBIDDEN) == 23
    assert ids[0] == tokenizer.id(":")
    assert ids[1] == tokenizer.special.unk  # a full-width colon is no vocabulary string
    assert ids[23:] == (7, 8)


def test_a_unit_may_not_draw_padding_bad_ids_or_a_late_end(tokenizer: Tokenizer) -> None:
    assert duplex_forbidden_ids(tokenizer) == (tokenizer.special.tts_pad, 7, 8, tokenizer.special.chunk_eos)
