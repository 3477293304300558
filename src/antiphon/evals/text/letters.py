"""Which letter an answer to a multiple-choice question chooses, by the rules of each data set."""

import re

from antiphon.core.errors import ConfigError

STRICT, RELAXED = "strict", "relaxed"
EXTRACTIONS = (STRICT, RELAXED)

_AT_THE_FRONT = re.compile(r"([A-D])(?:[\s.):]|$)")
_STANDING_ALONE = re.compile(r"\b([A-D])\b")
# In Chinese a letter is glued to ideographs, which count as letters of a word: only Latin neighbours speak against it.
_UNGLUED = re.compile(r"(?<![A-Za-z])([A-D])(?![A-Za-z])")
_ANY = re.compile(r"[A-D]")
_VIDEO_MME_PREFIXES = (
    "the best answer is",
    "the correct answer is",
    "the answer is",
    "the answer",
    "the best option is",
    "the correct option is",
    "best answer:",
    "best option:",
    "answer:",
    "option:",
)
_MAX_WORDS_WITHOUT_LETTER = 10


def check_extraction(extraction: str) -> None:
    """Refuse a way of extracting that there is not."""
    if extraction not in EXTRACTIONS:
        raise ConfigError(f"letters are extracted {' or '.join(EXTRACTIONS)}, not {extraction!r}")


def daily_omni_letter(answer: str, *, extraction: str = STRICT) -> str:
    """The letter chosen by *answer*, or "".

    Strict: what follows the last "assistant" counts. A letter at its very front with a blank, ".", ")", ":" or the
    end behind it goes first, then the first one that stands alone, then the last one without Latin neighbours.
    Relaxed: the same, also for small letters.
    """
    check_extraction(extraction)
    text = answer.rpartition("assistant")[2].strip()
    found = _strict_letter(text)
    if not found and extraction == RELAXED:
        found = _strict_letter(text.upper())
    return found


def video_mme_letter(answer: str) -> str:
    """The letter chosen by *answer*, or "": the first of A–D after known prefixes; a long text without any has none."""
    text = answer.strip()
    for prefix in _VIDEO_MME_PREFIXES:
        if text.lower().startswith(prefix):
            text = text[len(prefix) :].strip()
    if len(text.split()) > _MAX_WORDS_WITHOUT_LETTER and not _ANY.search(text):
        return ""
    found = _ANY.search(text)
    return found.group() if found else ""


def _strict_letter(text: str) -> str:
    if found := _AT_THE_FRONT.match(text):
        return found.group(1)
    if found := _STANDING_ALONE.search(text):
        return found.group(1)
    unglued = _UNGLUED.findall(text)
    return str(unglued[-1]) if unglued else ""
