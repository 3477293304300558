"""Decides which codec ids of a turn go to the vocoder together.

Model specification, section 4.6 ("Code buffering"). A chunk is 25 ids and the 3 after them as look-ahead; the look-
ahead is given again as the start of the next chunk.
"""

from collections.abc import Sequence
from dataclasses import dataclass

SILENCE_ID = 4218
LOOKAHEAD_IDS = 3
CHUNK_IDS = 25
MIN_FIRST_IDS = 8  # look-ahead and five more: as few as a turn's first unit may flush


@dataclass(frozen=True)
class CodeChunk:
    """Codec ids for one vocoder call. Unless `is_last` the final 3 are look-ahead only."""

    codes: tuple[int, ...]
    is_last: bool


class CodeBuffer:
    """The codec ids of one stream that wait for the vocoder. Invariant: at a turn's start it holds 3 ids of silence."""

    def __init__(self) -> None:
        self._waiting: list[int] = []
        self.reset()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def waiting(self) -> tuple[int, ...]:
        """The ids that wait, look-ahead of the last chunk (or silence) first."""
        return tuple(self._waiting)

    def reset(self) -> None:
        """Forget everything; a new turn starts."""
        self._waiting = [SILENCE_ID] * LOOKAHEAD_IDS

    def push(self, codes: Sequence[int], *, first: bool, end_of_turn: bool) -> list[CodeChunk]:
        """Add a unit's ids and take out the chunks that can be voiced now, in order.

        Args:
            codes: of one unit, without the end id; may be empty.
            first: the turn's first unit: also voice a chunk of fewer than 25 ids, so that speech starts at once.
            end_of_turn: voice all that is left. The buffer is then at the start of a new turn.
        """
        self._waiting += codes
        full = CHUNK_IDS + LOOKAHEAD_IDS
        least = MIN_FIRST_IDS if first else full
        chunks = []
        while len(self._waiting) >= least:
            num_ids = min(full, len(self._waiting))
            chunks.append(CodeChunk(tuple(self._waiting[:num_ids]), is_last=False))
            del self._waiting[: num_ids - LOOKAHEAD_IDS]
        if end_of_turn:
            # Full chunks went first: a buffer of 28 is one ordinary chunk and a last one of 3, not a last one of 28.
            chunks.append(CodeChunk(tuple(self._waiting), is_last=True))
            self.reset()
        return chunks
