"""Text to token ids and back, with a choice for text that looks like a special token: parse it, or keep it as text."""

import json
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend

from antiphon.core.errors import CheckpointError
from antiphon.prompt.segments import Markup, Plain
from antiphon.prompt.special_tokens import (
    ADDED_TOKENS,
    FIRST_ADDED_ID,
    REAL_VOCAB_SIZE,
    SLASH_S_ID,
    SLASH_S_TOKEN,
    UNK_ID,
    UNK_TOKEN,
    VISIBLE_TOKENS,
    SpecialTokens,
    find_special_tokens,
)


class Tokenizer:
    """One checkpoint's vocabulary.

    Invariant: nothing is ever added to what was asked for, no begin-of-text token either (the vocabulary names one).
    """

    def __init__(self, backend: Backend, *, bad_ids: Sequence[int] = (), where: str = "tokenizer") -> None:
        self._parsing = backend
        # The same model and rules without any added token: whatever looks like one is spelt out in ordinary tokens.
        self._plain = Backend(backend.model)
        self._plain.normalizer = backend.normalizer
        self._plain.pre_tokenizer = backend.pre_tokenizer
        added = backend.get_added_tokens_decoder()
        self._added_ids = {token.content: token_id for token_id, token in added.items()}
        self.special: SpecialTokens = find_special_tokens(backend.token_to_id, where)
        self.special_ids: frozenset[int] = frozenset(token_id for token_id, token in added.items() if token.special)
        self.bad_ids: tuple[int, ...] = tuple(bad_ids)
        self.vocab_size: int = backend.get_vocab_size(with_added_tokens=True)

    @classmethod
    def load(cls, folder: Path) -> "Tokenizer":
        """Read `tokenizer.json` and the `bad_token_ids` of `tokenizer_config.json` (none if absent).

        Only `tokenizer.json` will do: the real `merges.txt` lacks 16,452 merges, so a tokenizer made from it splits
        Chinese by character and nothing fails.
        """
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise CheckpointError(
                f"{path}: missing; vocab.json and merges.txt cannot replace it (they split Chinese words), get the file"
            )
        try:
            backend = Backend.from_file(str(path))
        except Exception as error:  # the library raises bare Exception
            raise CheckpointError(f"{path}: not a readable tokenizer: {error}") from error
        return cls(backend, bad_ids=_read_bad_ids(folder / "tokenizer_config.json"), where=str(path))

    @classmethod
    def placeholder(cls, vocab_size: int = REAL_VOCAB_SIZE) -> "Tokenizer":
        """A stand-in for a checkpoint without files: bytes as tokens, the real special tokens, made-up words elsewhere.

        The special tokens have their real ids; a vocabulary too small for that has them at its end, in the real order,
        with `<unk>` and `</s>` right before them. Any other id decodes to a visible word such as " w1234".
        """
        shift = min(0, vocab_size - REAL_VOCAB_SIZE)
        first_added = FIRST_ADDED_ID + shift
        unk_id, slash_s_id = (UNK_ID, SLASH_S_ID) if shift == 0 else (first_added - 2, first_added - 1)
        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
        if unk_id < len(letters):
            raise CheckpointError(f"a vocabulary of {vocab_size} ids has no room for bytes and special tokens")
        # "Ġ" is how byte-level vocabularies spell a blank.
        tokens = [f"Ġw{token_id}" for token_id in range(vocab_size)]
        tokens[: len(letters)] = letters
        tokens[unk_id], tokens[slash_s_id] = UNK_TOKEN, SLASH_S_TOKEN
        tokens[first_added : first_added + len(ADDED_TOKENS)] = ADDED_TOKENS
        backend = Backend(models.BPE(vocab={token: token_id for token_id, token in enumerate(tokens)}, merges=[]))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
        backend.add_tokens(
            [
                AddedToken(token, normalized=False, special=token not in VISIBLE_TOKENS)
                for token in (UNK_TOKEN, *ADDED_TOKENS)
            ]
        )
        return cls(backend, where="placeholder tokenizer")

    def encode(self, text: str) -> list[int]:
        """Ids of *text* in which special tokens are parsed: for markup of our own, and to follow the reference."""
        ids: list[int] = self._parsing.encode(text, add_special_tokens=False).ids
        return ids

    def encode_plain(self, text: str) -> list[int]:
        """Ids of *text* taken literally: none of them is an added token, whatever the text says."""
        ids: list[int] = self._plain.encode(text, add_special_tokens=False).ids
        return ids

    def encode_segments(self, segments: Iterable[Markup | Plain]) -> list[int]:
        """Ids of a text whose markup is parsed and whose plain parts are taken literally.

        Between two special tokens of the markup all text, plain or not, is one stretch and encoded in one go, because
        words and merges may span the seam: "user\\n" and "\\nHi" together hold one double newline. For plain parts
        without special tokens the ids are those of `encode` on the joined text.
        """
        ids: list[int] = []
        stretch = ""
        for segment in segments:
            if isinstance(segment, Plain):
                stretch += segment.text
                continue
            for piece in self._added_pattern.split(segment.text):
                token_id = self._added_ids.get(piece)
                if token_id is None:
                    stretch += piece
                    continue
                ids += self.encode_plain(stretch)
                ids.append(token_id)
                stretch = ""
        return ids + self.encode_plain(stretch)

    def decode(self, ids: Sequence[int], *, skip_special: bool) -> str:
        """Text of *ids*; broken UTF-8 becomes U+FFFD, ids outside the vocabulary nothing."""
        text: str = self._parsing.decode(list(ids), skip_special_tokens=skip_special)
        return text

    def id(self, token: str) -> int:
        """Id of a vocabulary string as the vocabulary spells it; an unknown one is `<unk>`, as in the reference."""
        token_id: int | None = self._parsing.token_to_id(token)
        return self.special.unk if token_id is None else token_id

    @cached_property
    def _added_pattern(self) -> re.Pattern[str]:
        longest_first = sorted(self._added_ids, key=len, reverse=True)
        return re.compile(f"({'|'.join(map(re.escape, longest_first))})")


def _read_bad_ids(path: Path) -> tuple[int, ...]:
    if not path.is_file():
        return ()
    try:
        ids = json.loads(path.read_text(encoding="utf-8")).get("bad_token_ids", [])
    except (ValueError, AttributeError) as error:
        raise CheckpointError(f"{path}: not a JSON object: {error}") from error
    if not isinstance(ids, list) or not all(isinstance(token_id, int) for token_id in ids):
        raise CheckpointError(f"{path}: bad_token_ids is not a list of ids")
    return tuple(ids)
