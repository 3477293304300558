"""Cuts what a session said into sentences with the times at which they were said."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from antiphon.core.errors import ConfigError

_ENDS = frozenset(".!?。！？…\n")
_CLOSERS = frozenset("\"'”’)]」』）")


@dataclass(frozen=True)
class Sentence:
    """Times in seconds from the start of the stream: of the first piece of its text, and of the last."""

    text: str
    start_s: float
    end_s: float


@dataclass(frozen=True)
class TextPiece:
    """Text of one response as it came."""

    response_id: str
    text: str
    at_s: float


def cut_sentences(pieces: Iterable[TextPiece]) -> list[Sentence]:
    """Sentences end at their punctuation, and where a response ends."""
    sentences: list[Sentence] = []
    text, start_s, end_s, response_id = "", 0.0, 0.0, ""

    def close() -> None:
        nonlocal text
        if text.strip():
            sentences.append(Sentence(text.strip(), round(start_s, 3), round(end_s, 3)))
        text = ""

    for piece in pieces:
        if piece.response_id != response_id:
            close()
            response_id = piece.response_id
        for index, letter in enumerate(piece.text):
            if not text.strip():
                start_s = piece.at_s
            text, end_s = text + letter, piece.at_s
            if _is_end(text, piece.text[index + 1 : index + 2]):
                close()
    close()
    return sentences


def sentences_document(sentences: Iterable[Sentence]) -> list[dict[str, object]]:
    return [{"sentence": item.text, "start": item.start_s, "end": item.end_s} for item in sentences]


def read_sentences(document: object, where: str) -> list[Sentence]:
    """The sentences of a response file: a list, or an object with `sentences` or `chunks`; by their start.

    Raises:
        ConfigError: it is something else.
    """
    if isinstance(document, dict):
        document = document.get("sentences", document.get("chunks"))
    if not isinstance(document, list):
        raise ConfigError(f"{where}: must be a list of sentences")
    return sorted((_read_sentence(item, where) for item in document), key=lambda sentence: sentence.start_s)


def _is_end(text: str, after: str) -> bool:
    """Whether a sentence ends with *text*, when *after* is the next letter, or empty where none has come yet."""
    letter, before = text[-1], text[-2:-1]
    if letter in _CLOSERS:
        return before != "" and before in _ENDS
    # "3.5" and "e.g." are no ends: a full stop needs a blank, or the end of what has come, behind it.
    return letter in _ENDS and after not in _CLOSERS and (letter != "." or not after or after.isspace())


def _read_sentence(item: object, where: str) -> Sentence:
    row: Mapping[str, object] = item if isinstance(item, dict) else {}
    text, start = row.get("sentence", row.get("text")), row.get("start", row.get("current_time"))
    if not isinstance(text, str) or isinstance(start, bool) or not isinstance(start, (int, float)):
        raise ConfigError(f"{where}: each sentence needs its text and its start in seconds")
    end = row.get("end")
    return Sentence(text, float(start), float(end) if isinstance(end, (int, float)) else float(start))
