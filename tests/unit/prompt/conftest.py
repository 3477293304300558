"""A small tokenizer with the real rules and special tokens, and merges that reach over the seams of a prompt."""

import json
from pathlib import Path

import pytest
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend

from antiphon.config.checkpoint import ImageConfig
from antiphon.prompt.special_tokens import ADDED_TOKENS, SLASH_S_TOKEN, UNK_TOKEN, VISIBLE_TOKENS
from antiphon.prompt.tokenizer import Tokenizer

WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
MERGES = [
    ("Ċ", "Ċ"),
    ("h", "i"),
    ("Ġ", "hi"),
    (".", "Ċ"),
    ("<", "|"),
    ("u", "n"),
    ("un", "k"),
    ("<", "unk"),
    ("k", ">"),
]


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *(left + right for left, right in MERGES)]
    tokens += [UNK_TOKEN, SLASH_S_TOKEN, *ADDED_TOKENS]
    vocab = {token: place for place, token in enumerate(tokens)}
    backend = Backend(models.BPE(vocab=vocab, merges=MERGES))
    backend.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(WORDS), "isolated")
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    backend.decoder = decoders.ByteLevel()
    added = [UNK_TOKEN, *ADDED_TOKENS]
    backend.add_tokens([AddedToken(token, normalized=False, special=token not in VISIBLE_TOKENS) for token in added])
    folder = tmp_path_factory.mktemp("tokenizer")
    backend.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bad_token_ids": [7, 8]}))
    return folder


@pytest.fixture(scope="session")
def tokenizer(tokenizer_folder: Path) -> Tokenizer:
    return Tokenizer.load(tokenizer_folder)


@pytest.fixture
def image_config() -> ImageConfig:
    half = (0.5, 0.5, 0.5)
    return ImageConfig(
        max_slices=9,
        scale_resolution=448,
        patch_size=14,
        num_queries=64,
        use_image_id=True,
        slice_mode=True,
        mean=half,
        std=half,
    )
