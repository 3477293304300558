"""The tiny byte-level BPE vocabulary: merges learnt from a few sentences, then the special tokens in the real order."""

import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from antiphon.pipeline.tiny_checkpoint.json_file import write_json
from antiphon.prompt.special_tokens import ADDED_TOKENS, SLASH_S_TOKEN, UNK_TOKEN, VISIBLE_TOKENS

NUM_MERGES = 420
# Four neighbours among the ordinary tokens of the real vocabulary; no merge makes them.
_SLOTS = (UNK_TOKEN, "<s>", "</s", SLASH_S_TOKEN)
# How the real tokenizer cuts text into words before it merges.
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_TEXT = """
Hello there, how are you today? I am a small model with random weights, so nothing that I say makes any sense at
all. The sun rises over the quiet harbour and the first boats come home. Somebody sings an old song about the
sea and the wind. We talk about music, about voices, about the weather, and about what we would like to eat
tonight: bread, soup, apples, rice. Please tell me a story. Once upon a time there was a river that wanted to
know where the rain goes when it is not raining. A listener waits, a speaker speaks, and then they change
places. This is what people call a conversation, and it works well. She asked him whether the train would leave
before seven. He said that it always leaves late, and that nobody minds. Look at the picture: a red house, a
green tree, two dogs, three clouds, and far behind them a mountain with some snow. Listen to the sound: first a
bell, then footsteps, then a door that opens slowly, and at last the voice of an old friend. Thank you very
much, see you tomorrow morning. Good night, sleep well, and do not forget to water the flowers. user assistant
system voice audio text image video speak listen think answer question word sound language time people The model
listens while it speaks and speaks while it listens; that is the whole idea, and it is a good idea. Streaming
Omni Conversation. You are a helpful assistant. Clone the voice in the provided audio prompt.
你好,世界。今天很好。你好吗?我很好,谢谢你。你是谁?我是小模型。
"""


@dataclass(frozen=True)
class Vocabulary:
    """Ordinary tokens as the files spell them (bytes as letters), merges in order, and ids of everything."""

    ids: dict[str, int]
    merges: list[tuple[str, str]]

    @property
    def first_added(self) -> int:
        return len(self.ids)

    @property
    def size(self) -> int:
        return len(self.ids) + len(ADDED_TOKENS)

    @property
    def added(self) -> dict[str, int]:
        return {token: self.first_added + index for index, token in enumerate(ADDED_TOKENS)}

    def surface(self, token: str) -> bytes:
        """The bytes that an ordinary token stands for."""
        byte_of = {letter: byte for byte, letter in byte_letters().items()}
        return bytes(byte_of[letter] for letter in token)

    def bad_ids(self) -> list[int]:
        """Ordinary tokens that are not speech, as the real list has them: parentheses and broken characters."""
        return [
            index for token, index in self.ids.items() if token not in _SLOTS and not is_speakable(self.surface(token))
        ]


def is_speakable(surface: bytes) -> bool:
    """Whether the bytes are whole characters without parentheses and control codes."""
    try:
        text = surface.decode()
    except UnicodeDecodeError:
        return False
    return not re.search(r"[()\[\]{}<>\x00-\x1f\x7f]", text)


def byte_letters() -> dict[int, str]:
    """Byte → the printable letter that stands for it in a byte-level vocabulary; printable Latin-1 stays."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {byte: chr(byte) for byte in printable}
    rest = (byte for byte in range(256) if byte not in letters)
    return letters | {byte: chr(0x100 + index) for index, byte in enumerate(rest)}


def build_vocabulary() -> Vocabulary:
    """Learn the merges (the commonest pair first, ties by spelling) and number the tokens."""
    letters = byte_letters()
    counts = Counter(re.findall(r" ?[^\W\d_]+|\d| ?[^\s\w]+", _TEXT))
    words = {tuple(letters[byte] for byte in word.encode()): count for word, count in counts.items()}
    merges: list[tuple[str, str]] = []
    while len(merges) < NUM_MERGES:
        pairs: Counter[tuple[str, str]] = Counter()
        for symbols, count in words.items():
            for pair in pairwise(symbols):
                pairs[pair] += count
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        words = {_merge(symbols, best): count for symbols, count in words.items()}
    tokens = [*letters.values(), *("".join(pair) for pair in merges)]
    middle = len(letters) + NUM_MERGES // 2
    tokens[middle:middle] = _SLOTS
    return Vocabulary({token: index for index, token in enumerate(tokens)}, merges)


def _merge(symbols: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    merged: list[str] = []
    for symbol in symbols:
        if merged and (merged[-1], symbol) == pair:
            merged[-1] += symbol
        else:
            merged.append(symbol)
    return tuple(merged)


def write_tokenizer(folder: Path, vocabulary: Vocabulary) -> None:
    """Write the six tokenizer files of the real layout."""
    added = {UNK_TOKEN: vocabulary.ids[UNK_TOKEN], **vocabulary.added}
    flags = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False}
    described = {
        index: {"content": token, **flags, "special": token not in VISIBLE_TOKENS} for token, index in added.items()
    }
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": _WORDS}, "behavior": "Isolated", "invert": False}
    write_json(
        folder / "tokenizer.json",
        {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [{"id": index, **entry} for index, entry in described.items()],
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
                "vocab": vocabulary.ids,
                "merges": [list(pair) for pair in vocabulary.merges],
            },
        },
    )
    write_json(folder / "vocab.json", vocabulary.ids)
    write_json(folder / "added_tokens.json", vocabulary.added)
    lines = ["#version: 0.2", *(" ".join(pair) for pair in vocabulary.merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    first_own = ADDED_TOKENS.index("<image>")  # what lies before it is Qwen's
    names: dict[str, object] = {
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": UNK_TOKEN,
        "additional_special_tokens": [UNK_TOKEN, *ADDED_TOKENS[first_own:]],
    }
    write_json(folder / "special_tokens_map.json", names)
    write_json(
        folder / "tokenizer_config.json",
        {
            "add_bos_token": False,
            "add_prefix_space": False,
            "added_tokens_decoder": {str(index): entry for index, entry in described.items()},
            **names,
            "clean_up_tokenization_spaces": False,
            "errors": "replace",
            "model_max_length": 131072,
            "split_special_tokens": False,
            "tokenizer_class": "MiniCPMOTokenizerFast",
            "bad_token_ids": vocabulary.bad_ids(),
        },
    )
