"""Token ids to text as they come, without ever splitting a character, and without showing a stop string."""

from collections.abc import Sequence

from antiphon.prompt.tokenizer import Tokenizer

_BROKEN = "\ufffd"
MAX_HELD_TOKENS = 64  # a run this long without one complete character is not text; it is let go as it is


class Detokenizer:
    """Incremental decoding. Joined, the pieces are the decoded whole (special tokens left out)."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._held: list[int] = []  # ids since the last point where everything was complete
        self._num_shown = 0  # characters of their text that were returned already

    def push(self, token_id: int) -> str:
        """The text that became certain with *token_id*; empty while a character is incomplete."""
        self._held.append(token_id)
        text = self._tokenizer.decode(self._held, skip_special=True)
        # Bytes that could still become a character show as exactly one replacement mark at the very end.
        is_open = text.endswith(_BROKEN) and len(self._held) < MAX_HELD_TOKENS
        piece = text[self._num_shown : len(text) - 1 if is_open else len(text)]
        if is_open:
            self._num_shown += len(piece)
        else:
            self._held.clear()
            self._num_shown = 0
        return piece

    def finish(self) -> str:
        """What was held back: the replacement mark of a character that never got complete."""
        text = self._tokenizer.decode(self._held, skip_special=True)[self._num_shown :]
        self._held.clear()
        self._num_shown = 0
        return text


class StopStrings:
    """Cuts a text that comes in pieces before the first of some strings; holds back what may be the start of one."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self.is_hit = False

    def push(self, piece: str) -> str:
        """The text that may be shown now. After a hit (`is_hit`) nothing is shown any more."""
        if self.is_hit:
            return ""
        text = self._held + piece
        found = [place for stop in self._stops if (place := text.find(stop)) >= 0]
        if found:
            self.is_hit = True
            self._held = ""
            return text[: min(found)]
        keep = max((_overlap(text, stop) for stop in self._stops), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> str:
        """What was held back for a stop string that never came."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of *text* that is a beginning of *stop*."""
    return next((size for size in range(min(len(text), len(stop) - 1), 0, -1) if stop.startswith(text[-size:])), 0)
