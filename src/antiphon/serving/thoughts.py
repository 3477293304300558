"""Separates what the model thinks from what it says, while the text comes in pieces."""

from dataclasses import dataclass

OPEN, CLOSE = "<think>", "</think>"


@dataclass(frozen=True)
class Split:
    """New text, apart."""

    said: str
    thought: str


class ThoughtSplitter:
    """Takes the tags out. Line breaks right behind a tag belong to it.

    A tag may come in pieces: what could be the start of one is held back until it is certain.
    """

    def __init__(self) -> None:
        self._held = ""
        self._is_thinking = False
        self._skips_breaks = False

    def push(self, text: str) -> Split:
        """Take the next piece."""
        self._held += text
        said, thought = "", ""
        while True:
            tag = CLOSE if self._is_thinking else OPEN
            place = self._held.find(tag)
            end = place if place >= 0 else len(self._held) - _overlap(self._held, tag)
            piece, self._held = self._held[:end], self._held[end:]
            if self._skips_breaks:
                piece = piece.lstrip("\n")
                self._skips_breaks = not piece
            if self._is_thinking:
                thought += piece
            else:
                said += piece
            if place < 0:
                return Split(said, thought)
            self._held = self._held[len(tag) :]
            self._is_thinking = not self._is_thinking
            self._skips_breaks = True

    def finish(self) -> Split:
        """What was held back."""
        held, self._held = self._held, ""
        return Split("", held) if self._is_thinking else Split(held, "")


def _overlap(text: str, tag: str) -> int:
    """Length of the longest end of *text* that is a beginning of *tag*."""
    return next((size for size in range(min(len(text), len(tag) - 1), 0, -1) if tag.startswith(text[-size:])), 0)
