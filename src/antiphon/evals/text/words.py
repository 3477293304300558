"""Word errors of a transcript, after what is not a word has been taken away. Needs jiwer (`[eval]`).

The rules are those that Seed-TTS results are published with: punctuation is dropped (ASCII and CJK, the apostrophe
stays), blanks are collapsed, English is compared by lower-case words and Chinese by characters. Numbers stay as they
are written unless they are asked to be spelled: recognisers write digits where a text has words.
"""

import unicodedata
from dataclasses import dataclass

import jiwer

from antiphon.core.errors import ConfigError
from antiphon.evals.text.numbers import spell_numbers

LANGUAGES = ("en", "zh")
_APOSTROPHES = str.maketrans({"’": "'", "ʼ": "'", "＇": "'"})


@dataclass(frozen=True)
class WordRules:
    """How texts are made comparable. Scores under different rules are not."""

    language: str = "en"
    spells_numbers: bool = False

    def __post_init__(self) -> None:
        if self.language not in LANGUAGES:
            raise ConfigError(f"language {self.language!r}: words are counted in {' and '.join(LANGUAGES)} only")
        if self.spells_numbers and self.language != "en":
            raise ConfigError("numbers are spelled in English only")

    @property
    def name(self) -> str:
        return f"seed-tts-{self.language}{'+spelled-numbers' if self.spells_numbers else ''}"


@dataclass(frozen=True)
class WordErrors:
    """Differences between a reference and a transcript; a unit is an English word or a Chinese character."""

    num_units: int
    num_substituted: int
    num_deleted: int
    num_inserted: int

    @property
    def num_errors(self) -> int:
        return self.num_substituted + self.num_deleted + self.num_inserted

    @property
    def rate(self) -> float:
        """Errors ÷ units of the reference; above 1 where a transcript has much too many."""
        return self.num_errors / self.num_units


def normalise(text: str, rules: WordRules) -> list[str]:
    """The units of *text* that are compared."""
    text = text.translate(_APOSTROPHES)
    if rules.spells_numbers:
        text = spell_numbers(text)
    kept = "".join(character for character in text if not _is_mark(character)).lower()
    if rules.language == "zh":
        return [character for character in kept if not character.isspace()]
    return [word for word in kept.split() if word.strip("'")]


def word_errors(reference: str, transcript: str, rules: WordRules) -> WordErrors:
    """What *transcript* gets wrong of *reference*. Raises ConfigError if the reference has no words."""
    wanted, heard = normalise(reference, rules), normalise(transcript, rules)
    if not wanted:
        raise ConfigError(f"the reference {reference!r} has no words to count errors of")
    if not heard:  # an empty transcript is no sentence to jiwer
        return WordErrors(len(wanted), 0, len(wanted), 0)
    found = jiwer.process_words(" ".join(wanted), " ".join(heard))
    return WordErrors(len(wanted), found.substitutions, found.deletions, found.insertions)


def _is_mark(character: str) -> bool:
    """Punctuation and symbols of any script. The apostrophe is part of a word."""
    return character != "'" and unicodedata.category(character)[0] in "PS"
