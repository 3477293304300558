"""A rendered prompt as a row of segments, and the handles that carry foreign text through a chat template unread.

Text that users send must never become markup: it could forge a role, end a message or break the placeholder counts.
So a template does not see it. It sees a handle, moves it about, and afterwards the handle is exchanged for a `Plain`
segment, which is encoded without parsing. Media travel the same way.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from antiphon.core.errors import PromptError

# Two of Unicode's noncharacters: they never stand for text, and what users send is behind handles, so no clash.
_OPEN, _CLOSE = "\ufdd0", "\ufdd1"
_HANDLE = re.compile(f"{_OPEN}([0-9]+){_CLOSE}")


@dataclass(frozen=True)
class Markup:
    """Text in which special tokens are parsed."""

    text: str


@dataclass(frozen=True)
class Plain:
    """Text that stays text."""

    text: str


@dataclass(frozen=True)
class Media:
    """The place of the image or audio part number *index* (running over both kinds, in the order they were given)."""

    index: int


Segment = Markup | Plain | Media


class Handles:
    """Lends a short stand-in for text or media, and puts the real thing back after rendering."""

    def __init__(self) -> None:
        self._kept: list[Plain | Media] = []

    def lend(self, segment: Plain | Media) -> str:
        """A stand-in for *segment*.

        White space around a text stays outside: it is harmless, and templates strip it. So blank text needs no handle.
        """
        if isinstance(segment, Media):
            return self._keep(segment)
        core = segment.text.strip()
        if not core:
            return segment.text
        start = segment.text.index(core)
        return segment.text[:start] + self._keep(Plain(core)) + segment.text[start + len(core) :]

    def redeem(self, rendered: str) -> list[Segment]:
        """Split *rendered* into segments. Raises PromptError if the template has cut a handle in two or made one up."""
        return list(self._redeem(rendered))

    def _keep(self, segment: Plain | Media) -> str:
        self._kept.append(segment)
        return f"{_OPEN}{len(self._kept) - 1}{_CLOSE}"

    def _redeem(self, rendered: str) -> Iterator[Segment]:
        for place, piece in enumerate(_HANDLE.split(rendered)):
            if place % 2 == 1:
                if int(piece) >= len(self._kept):
                    raise PromptError("the rendered prompt names a part that no message has")
                yield self._kept[int(piece)]
            elif _OPEN in piece or _CLOSE in piece:
                raise PromptError(
                    "the chat template cuts message text into pieces; it cannot be used with protected text"
                )
            elif piece:
                yield Markup(piece)
