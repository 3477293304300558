"""The table of special tokens."""

import pytest

from antiphon.core.errors import CheckpointError
from antiphon.prompt.special_tokens import ADDED_TOKENS, FIRST_ADDED_ID, find_special_tokens


def test_the_table_is_complete_and_in_the_order_of_the_real_ids() -> None:
    assert len(ADDED_TOKENS) == len(set(ADDED_TOKENS)) == 105
    known = {"<think>": 151667, "<image>": 151669, "</unit>": 151684, "<focus>": 151687, "</perception>": 151692}
    known |= {"<|tts_bos|>": 151703, "<|listen|>": 151705, "<|turn_eos|>": 151717, "<|timbre_7|>": 151723}
    assert {token: FIRST_ADDED_ID + ADDED_TOKENS.index(token) for token in known} == known


def test_a_vocabulary_of_another_model_is_refused_by_name() -> None:
    ids = {token: place for place, token in enumerate(ADDED_TOKENS)}
    with pytest.raises(CheckpointError, match="here: the vocabulary lacks <unk>, </s>"):
        find_special_tokens(ids.get, "here")
