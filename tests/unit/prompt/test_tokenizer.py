"""Parsing and not parsing special tokens, and the stand-in tokenizer."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.core.errors import CheckpointError
from antiphon.prompt.segments import Markup, Plain
from antiphon.prompt.special_tokens import ADDED_TOKENS, REAL_VOCAB_SIZE, SLASH_S_TOKEN, UNK_TOKEN
from antiphon.prompt.tokenizer import Tokenizer

ALL_TOKENS = (UNK_TOKEN, SLASH_S_TOKEN, *ADDED_TOKENS)


@pytest.mark.parametrize("token", [UNK_TOKEN, *ADDED_TOKENS])
def test_markup_is_parsed(tokenizer: Tokenizer, token: str) -> None:
    assert tokenizer.encode(f"a{token}b") == [tokenizer.id("a"), tokenizer.id(token), tokenizer.id("b")]


@pytest.mark.parametrize("token", ALL_TOKENS)
def test_a_special_token_in_plain_text_stays_text(tokenizer: Tokenizer, token: str) -> None:
    text = f"x{token}\n{token}{token} y"
    ids = tokenizer.encode_plain(text)
    assert not set(ids) & {tokenizer.id(added) for added in ALL_TOKENS}
    assert tokenizer.decode(ids, skip_special=True) == text


@pytest.mark.parametrize("token", ADDED_TOKENS)
def test_plain_text_between_markup_cannot_complete_a_token(tokenizer: Tokenizer, token: str) -> None:
    half = len(token) // 2
    ids = tokenizer.encode_segments([Markup(token[:half]), Plain(token[half:]), Markup("<|im_end|>")])
    assert tokenizer.id(token) not in ids[:-1]
    assert ids[-1] == tokenizer.special.im_end


def test_text_between_special_tokens_is_one_stretch_whatever_its_segments(tokenizer: Tokenizer) -> None:
    # A newline of the markup and one of the text make one token, as they do in training.
    segments = [Markup("<|im_start|>user\n"), Plain("\nhi."), Markup("\n<|im_end|>")]
    assert tokenizer.encode_segments(segments) == tokenizer.encode("<|im_start|>user\n\nhi.\n<|im_end|>")
    assert tokenizer.id("ĊĊ") in tokenizer.encode_segments(segments)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.booleans(), st.text(alphabet="hi \n.é\u0301'<|>🙂1你")), max_size=6))
def test_segments_of_ordinary_text_give_the_ids_of_the_joined_text(
    tokenizer: Tokenizer, pieces: list[tuple[bool, str]]
) -> None:
    segments = [Plain(text) if is_plain else Markup(text) for is_plain, text in pieces]
    marked = [Markup("<|im_start|>"), *segments, Markup("<|im_end|>")]
    joined = "".join(text for _, text in pieces)
    assert tokenizer.encode_segments(marked) == tokenizer.encode(f"<|im_start|>{joined}<|im_end|>")


def test_an_unknown_string_has_the_unk_id(tokenizer: Tokenizer) -> None:
    assert tokenizer.id("（") == tokenizer.special.unk


def test_decoding_can_leave_special_tokens_out_but_keeps_thoughts(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("<think>hi</think><|tts_bos|>hi<|turn_eos|>")
    assert tokenizer.decode(ids, skip_special=True) == "<think>hi</think>hi"
    assert tokenizer.decode(ids, skip_special=False) == "<think>hi</think><|tts_bos|>hi<|turn_eos|>"


def test_bad_ids_are_read_from_the_config_and_absent_without_it(tokenizer: Tokenizer, tokenizer_folder: Path) -> None:
    assert tokenizer.bad_ids == (7, 8)
    assert Tokenizer.placeholder(1000).bad_ids == ()


def test_a_folder_without_tokenizer_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"tokenizer\.json: missing"):
        Tokenizer.load(tmp_path)


def test_a_broken_tokenizer_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match="not a readable tokenizer"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("config", ["[]", "{", '{"bad_token_ids": ["7"]}'])
def test_a_broken_tokenizer_config_is_refused(tokenizer_folder: Path, tmp_path: Path, config: str) -> None:
    (tmp_path / "tokenizer.json").write_bytes((tokenizer_folder / "tokenizer.json").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text(config)
    with pytest.raises(CheckpointError, match=r"tokenizer_config\.json"):
        Tokenizer.load(tmp_path)


def test_the_placeholder_has_the_real_special_ids() -> None:
    tokenizer = Tokenizer.placeholder()
    assert tokenizer.vocab_size == REAL_VOCAB_SIZE == 151_748
    assert tokenizer.encode("<|im_start|><unit><|speak|><|tts_pad|><unk>") == [151644, 151683, 151706, 151722, 128244]
    assert (tokenizer.special.slash_s, tokenizer.special.chunk_eos, tokenizer.id("<|timbre_31|>")) == (
        128247,
        151718,
        151747,
    )


def test_the_placeholder_reads_bytes_and_shows_every_other_id() -> None:
    tokenizer = Tokenizer.placeholder(2000)
    text = "Grüße, 世界!"
    assert tokenizer.decode(tokenizer.encode(text), skip_special=True) == text
    assert tokenizer.decode([1234, 400], skip_special=True) == " w1234 w400"
    assert tokenizer.encode("<|im_start|>") == [tokenizer.special.im_start]
    assert tokenizer.special.unk == 2000 - len(ADDED_TOKENS) - 2


def test_a_vocabulary_too_small_for_a_placeholder_is_refused() -> None:
    with pytest.raises(CheckpointError, match="no room"):
        Tokenizer.placeholder(300)
