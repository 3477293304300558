"""How many Talker steps one launch takes, and what of its codes counts: the host's mirror of the device's counters.

A step feeds the last code (one cache position) and draws the next. The first draw of a condition comes from its
prefill. Optimisation notes, section 2.1.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from antiphon.core.errors import ConfigError, StateError


class ConditionEnd(Enum):
    """Why no more codes of a condition come."""

    EOS = "eos"
    LIMIT = "limit"  # as many draws as asked for
    CONTEXT = "context"  # no cache position left


@dataclass(frozen=True)
class Boundaries:
    """After how many codes of a turn the host wants to look: the first chunk, then one chunk after another."""

    first_codes: int
    chunk_codes: int

    def distance(self, num_codes: int) -> int:
        """Codes from *num_codes* to the next boundary, at least 1."""
        if num_codes < self.first_codes:
            return self.first_codes - num_codes
        return self.chunk_codes - (num_codes - self.first_codes) % self.chunk_codes


class WindowRow:
    """One slot's counters.

    Invariant: `position` and the draw counters are those of valid codes; a window in flight books `booked` positions
    on top, which its commit turns into what was used and gives the rest back.

    Attributes:
        position: cache positions used, so where the next step writes. The code drawn last is not among them.
        last_code: what the next step feeds: the last valid code, whatever a window's later steps wrote.
        num_codes: valid codes of this turn.
        num_draws: draws of this condition, the end code included.
        request_draws: draws of the whole request: the step of the counter RNG.
        min_draws: the end code is masked below so many draws of the condition.
        end: set once the condition has ended; sticky until the next.
        is_dropped: what is in flight no longer counts (abort, barge-in).
    """

    def __init__(self, slot: int, *, eos_id: int, max_positions: int, boundaries: Boundaries | None = None) -> None:
        self.slot = slot
        self.eos_id = eos_id
        self.max_positions = max_positions
        self.boundaries = boundaries
        self.position = 0
        self.last_code: int | None = None
        self.num_codes = self.num_draws = self.request_draws = 0
        self.min_draws = self.max_draws = 0
        self.emits_last = False
        self.end: ConditionEnd | None = None
        self.is_dropped = False
        self.window: StepWindow | None = None

    @property
    def booked(self) -> int:
        return self.window.num_steps if self.window else 0

    @property
    def masks_end(self) -> bool:
        """Whether the next draw may not be the end code."""
        return self.num_draws < self.min_draws

    @property
    def can_step(self) -> bool:
        return self.window is None and not self.is_dropped and self.end is None and self.last_code is not None

    @property
    def max_steps(self) -> int:
        """Steps it may take now without the host; at least 1 while it can step."""
        steps = min(self.max_draws - self.num_draws, self.max_positions - self.position)
        return min(steps, self.boundaries.distance(self.num_codes)) if self.boundaries else steps

    def begin_turn(self) -> None:
        """Empty cache, no codes."""
        self._require_idle("begin a turn")
        self.position = self.num_codes = 0

    def begin_condition(
        self, *, position: int, code: int, min_draws: int, max_draws: int, emits_last: bool
    ) -> tuple[int, ...]:
        """A condition was prefilled up to *position* and its first code drawn.

        Args:
            position: cache positions used now.
            code: the first draw.
            min_draws: the end code is masked for so many draws.
            max_draws: draws at most, at least 1.
            emits_last: whether the draw that reaches *max_draws* is a code like others, or is lost as in the reference.

        Returns:
            The codes that count: none or one.
        """
        self._require_idle("begin a condition")
        if max_draws < 1 or position > self.max_positions:
            raise StateError(
                f"slot {self.slot}: a condition of {max_draws} draws at position {position} of {self.max_positions}"
            )
        self.position, self.min_draws, self.max_draws, self.emits_last = position, min_draws, max_draws, emits_last
        self.num_draws, self.end, self.last_code = 0, None, None
        codes = self._accept((code,))
        self._end_when_full()
        return codes

    def commit(self, window: "StepWindow", drawn: Sequence[int]) -> tuple[int, ...]:
        """Close *window* with the codes its steps drew, fillers included.

        Returns:
            The valid codes: cut before the first end code; none of a dropped row.
        """
        if window is not self.window:
            raise StateError(f"slot {self.slot}: this window is not the one in flight")
        if len(drawn) != window.num_steps:
            raise StateError(f"slot {self.slot}: {len(drawn)} codes from a window of {window.num_steps} steps")
        self.window = None
        if self.is_dropped:
            return ()
        first_draw = self.num_draws
        codes = self._accept(drawn)
        self.position += self.num_draws - first_draw  # steps after the end wrote to booked positions only
        self._end_when_full()
        return codes

    def drop(self) -> None:
        """Nothing of this row counts any more. Its slot is free once `can_free`."""
        self.is_dropped = True

    @property
    def can_free(self) -> bool:
        """No launched window writes to the slot any more (collected, so its fence has passed)."""
        return self.window is None

    def _accept(self, drawn: Sequence[int]) -> tuple[int, ...]:
        codes: list[int] = []
        for code in drawn:
            self.num_draws += 1
            self.request_draws += 1
            if code == self.eos_id:
                self.end = ConditionEnd.EOS
                break
            is_limit = self.num_draws == self.max_draws
            if is_limit:
                self.end = ConditionEnd.LIMIT
            if is_limit and not self.emits_last:
                break
            codes.append(code)
            self.last_code = code
            if is_limit:
                break
        self.num_codes += len(codes)
        return tuple(codes)

    def _end_when_full(self) -> None:
        if self.end is None and self.position == self.max_positions:
            self.end = ConditionEnd.CONTEXT

    def _require_idle(self, action: str) -> None:
        if self.window is not None or self.is_dropped:
            what = "was dropped" if self.is_dropped else "has a window in flight"
            raise StateError(f"slot {self.slot} {what} and cannot {action}")


@dataclass(frozen=True, eq=False)
class StepWindow:
    """One launch of *num_steps* steps over *rows*."""

    num_steps: int
    rows: tuple[WindowRow, ...]


class WindowLadder:
    """The captured window lengths."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = tuple(sorted(set(lengths)))
        if not self.lengths or self.lengths[0] != 1:
            raise ConfigError(f"step windows {list(lengths)}: 1 must be among them, positive ones only")

    def book(self, rows: Sequence[WindowRow], *, slack: int = 0) -> StepWindow | None:
        """Book the longest window that all rows which can step allow; None if none can.

        *slack*: steps by which it may pass the nearest boundary or limit. A row stops by itself after its last draw, so
        this costs wasted steps at most, and rows whose boundaries differ are spared windows of one step. Only for rows
        whose draws all fit into their positions.
        """
        ready = tuple(row for row in rows if row.can_step)
        if not ready:
            return None
        most = min(row.max_steps for row in ready) + slack
        window = StepWindow(max(length for length in self.lengths if length <= most), ready)
        for row in ready:
            row.window = window
        return window
