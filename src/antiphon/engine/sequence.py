"""One request inside the Thinker: its states, its tokens and the step rows that are on their way."""

from collections import deque
from collections.abc import Sequence as Items
from dataclasses import dataclass
from enum import Enum

from antiphon.core.errors import StateError
from antiphon.engine.block_table import BlockTable
from antiphon.engine.context_window import Cut, Span
from antiphon.engine.prefix_hash import MediaSpan


class SequenceState(Enum):
    NEW = "new"
    WAITING = "waiting"  # never run yet
    RUNNING = "running"  # has a seat and blocks
    PREEMPTED = "preempted"  # lost its seat or its blocks in the middle of a turn
    PARKED = "parked"  # between two turns; its cache is kept unless others needed the room
    SPILLED = "spilled"  # parked, its cache in host memory
    FINISHED = "finished"
    ABORTED = "aborted"


class SequenceEvent(Enum):
    ADMIT = "admit"
    SCHEDULE = "schedule"
    PREEMPT = "preempt"
    PARK = "park"
    RESUME = "resume"
    SPILL = "spill"
    RESTORE = "restore"
    FINISH = "finish"
    ABORT = "abort"


_S, _E = SequenceState, SequenceEvent

TRANSITIONS: dict[tuple[SequenceState, SequenceEvent], SequenceState] = {
    (_S.NEW, _E.ADMIT): _S.WAITING,
    (_S.WAITING, _E.SCHEDULE): _S.RUNNING,
    (_S.WAITING, _E.PARK): _S.PARKED,
    (_S.WAITING, _E.ABORT): _S.ABORTED,
    (_S.RUNNING, _E.PREEMPT): _S.PREEMPTED,
    (_S.RUNNING, _E.PARK): _S.PARKED,
    (_S.RUNNING, _E.FINISH): _S.FINISHED,
    (_S.RUNNING, _E.ABORT): _S.ABORTED,
    (_S.PREEMPTED, _E.SCHEDULE): _S.RUNNING,
    (_S.PREEMPTED, _E.PREEMPT): _S.PREEMPTED,  # lost its seat before, its blocks now
    (_S.PREEMPTED, _E.PARK): _S.PARKED,
    (_S.PREEMPTED, _E.ABORT): _S.ABORTED,
    (_S.PARKED, _E.RESUME): _S.RUNNING,
    (_S.PARKED, _E.PREEMPT): _S.PARKED,  # loses its cache, and computes it anew when it resumes
    (_S.PARKED, _E.SPILL): _S.SPILLED,
    (_S.PARKED, _E.FINISH): _S.FINISHED,
    (_S.PARKED, _E.ABORT): _S.ABORTED,
    (_S.SPILLED, _E.RESTORE): _S.PARKED,
    (_S.SPILLED, _E.FINISH): _S.FINISHED,
    (_S.SPILLED, _E.ABORT): _S.ABORTED,
}


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What a sequence is given for one turn: the prompt, or an extension.

    Attributes:
        ids: at least one token.
        media: spans relative to the first of *ids*.
        max_draws: tokens to draw at most; 0 only computes *ids*.
        deadline_s: on the caller's clock; earlier goes first within a priority.
        priority: lower goes first.
        epoch: carried by the rows of this turn.
    """

    ids: tuple[int, ...]
    media: tuple[MediaSpan, ...] = ()
    max_draws: int = 0
    deadline_s: float = 0.0
    priority: int = 0
    epoch: int = 0


@dataclass(frozen=True, eq=False)
class StepRow:
    """One sequence's part of one launch: forward the tokens at positions [start, start + num_tokens).

    A decode row forwards one token, the one that the row before it drew: only the device knows it for certain.

    Attributes:
        draws: the last position's logits are sampled.
        draw_step: how many tokens the sequence drew before: the step of the counter RNG.
    """

    seq: "Sequence"
    epoch: int
    start: int
    num_tokens: int
    is_decode: bool
    draws: bool
    draw_step: int


class Sequence:
    """A resumable sequence. Changed by the scheduler only.

    Invariant: the cache holds positions [0, num_computed) but for `gap`; rows in flight book the positions after them.
    What a row in flight brings counts only while the sequence runs, and it starts to run only with no row in flight.

    Attributes:
        tokens: all known ids.
        media: where rows of media stand in `tokens`.
        is_open: a turn is under way, so the sequence wants to run.
        is_decoding: the next token to forward is on the device.
        gap: positions below num_computed that a cut left to be computed anew.
        pieces: extensions that wait for the end of the turn.
        num_drawn: tokens drawn so far, over all turns.
        turn_drawn: of them in this turn.
        num_cached_tokens: tokens that its first start found in the prefix cache.
    """

    def __init__(self, seq_id: str, prompt: Piece, *, is_resumable: bool = False) -> None:
        self.seq_id = seq_id
        self.is_resumable = is_resumable
        self.state = SequenceState.NEW
        self.serial = 0  # order of admission
        self.max_positions = 0
        self.tokens: list[int] = []
        self.media: list[MediaSpan] = []
        self.table = BlockTable()
        self.num_computed = 0
        self.gap: Span | None = None
        self.in_flight: deque[StepRow] = deque()
        self.pieces: deque[Piece] = deque()
        self.is_open = self.is_closed = self.is_decoding = False
        self.num_drawn = self.turn_drawn = self.max_draws = 0
        self.num_cached_tokens: int | None = None
        self.deadline_s = 0.0
        self.priority = self.epoch = 0
        self.absorb(prompt)

    def fire(self, event: SequenceEvent) -> None:
        """Change state by the table.

        Raises:
            StateError: the table lacks the event.
        """
        target = TRANSITIONS.get((self.state, event))
        if target is None:
            raise StateError(f"sequence {self.seq_id}: no event {event.value} in state {self.state.value}")
        self.state = target

    @property
    def key(self) -> tuple[int, float, int]:
        """Who goes first: priority, deadline, arrival."""
        return self.priority, self.deadline_s, self.serial

    @property
    def is_ended(self) -> bool:
        return self.state in (SequenceState.FINISHED, SequenceState.ABORTED)

    @property
    def num_booked(self) -> int:
        """Positions computed or on their way. Counts nothing in flight unless the sequence runs."""
        if self.state is not SequenceState.RUNNING or self.gap is not None:
            return self.num_computed
        return self.num_computed + sum(row.num_tokens for row in self.in_flight)

    @property
    def num_draws_in_flight(self) -> int:
        return sum(row.draws for row in self.in_flight)

    @property
    def draws_left(self) -> int:
        """Tokens that may still be drawn in this turn. 0 after a commit: the turn ends by its length."""
        left = min(self.max_draws - self.turn_drawn, self.max_positions - len(self.tokens))
        return left - self.num_draws_in_flight

    @property
    def num_uncomputed(self) -> int:
        """Known tokens that no row forwards yet; of a gap only its own."""
        return self.gap[1] - self.gap[0] if self.gap else len(self.tokens) - self.num_booked

    @property
    def max_len(self) -> int:
        """Upper bound of the length once everything given so far is done."""
        waiting = sum(len(piece.ids) + piece.max_draws for piece in self.pieces)
        return len(self.tokens) + (max(0, self.max_draws - self.turn_drawn) if self.is_open else 0) + waiting

    def can_absorb(self) -> bool:
        """Whether a piece may join at once: nothing is drawn before it."""
        return not self.is_open or self.max_draws == 0

    def absorb(self, piece: Piece) -> None:
        """Append a piece and open a turn, or join the open one that only computes."""
        assert self.can_absorb()
        self.media += [span.moved(len(self.tokens)) for span in piece.media]
        self.tokens += piece.ids
        self.is_open, self.is_decoding = True, False
        self.max_draws, self.turn_drawn = piece.max_draws, 0
        self.deadline_s, self.priority, self.epoch = piece.deadline_s, piece.priority, piece.epoch

    def close_turn(self) -> None:
        """Draw no more. Tokens not yet computed join the next turn."""
        self.is_open = self.is_decoding = False

    def book_decode(self) -> StepRow:
        """Book a row that forwards the token drawn last and draws the next."""
        return self._book(self.num_booked, 1, is_decode=True, draws=True)

    def book_prefill(self, max_tokens: int) -> StepRow:
        """Book a row over at most *max_tokens* known tokens; the row with the last one draws if the turn does."""
        num_tokens = min(self.num_uncomputed, max_tokens)
        if self.gap:
            return self._book(self.gap[0], num_tokens, is_decode=False, draws=False)
        is_last = num_tokens == self.num_uncomputed
        return self._book(self.num_booked, num_tokens, is_decode=False, draws=is_last and self.draws_left > 0)

    def _book(self, start: int, num_tokens: int, *, is_decode: bool, draws: bool) -> StepRow:
        draw_step = self.num_drawn + self.num_draws_in_flight
        row = StepRow(self, self.epoch, start, num_tokens, is_decode, draws, draw_step)
        self.in_flight.append(row)
        self.is_decoding = draws
        return row

    def commit(self, row: StepRow, ids: Items[int]) -> None:
        """Take over what a row computed, and the ids it drew (none: the drawn one is not kept)."""
        if self.gap:
            start = row.start + row.num_tokens
            self.gap = (start, self.gap[1]) if start < self.gap[1] else None
        else:
            self.num_computed += row.num_tokens
        self.tokens += ids
        self.num_drawn += row.draws
        self.turn_drawn += row.draws

    def forget_cache(self) -> None:
        """Its blocks are gone: everything is computed anew."""
        self.num_computed, self.gap, self.is_decoding = 0, None, False

    def apply_cut(self, cut: Cut) -> None:
        """Change tokens, media and counters to what *cut* leaves.

        Raises:
            StateError: it is not a cut of these tokens, or goes through media. Nothing has changed.
        """
        kept, tail_start = cut.prefix[1], cut.tail[0]
        if not kept <= tail_start <= len(self.tokens) or cut.tail[1] != len(self.tokens):
            raise StateError(
                f"sequence {self.seq_id}: cut {cut.prefix} + {cut.tail} of a context of {len(self.tokens)} tokens"
            )
        shift = kept + len(cut.refeed_ids) - tail_start
        for span in self.media:
            if span.start < tail_start < span.end or span.start < kept < span.end:
                raise StateError(f"sequence {self.seq_id}: a cut at {kept} … {tail_start} goes through media")
        self.media = [span for span in self.media if span.end <= kept] + [
            span.moved(shift) for span in self.media if span.start >= tail_start
        ]
        self.tokens[kept:tail_start] = cut.refeed_ids
        if self.num_computed > tail_start:
            self.num_computed += shift
            self.gap = (kept, kept + len(cut.refeed_ids)) if cut.refeed_ids else None
        else:
            self.num_computed, self.gap = min(self.num_computed, kept), None
