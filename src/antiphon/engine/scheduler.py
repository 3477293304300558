"""Decides which Thinker sequences run in the next step: earliest deadline first.

A step holds one row for every sequence that decodes, and beside them prefill rows up to a token budget: decoding is
never starved, and prefill progresses in every step.

No livelock: room is only ever taken from sequences that are idle or go later in the order, so the first in the order
always gets on; and nobody starts before one who goes first, so the long ones do not starve.
"""

from collections.abc import Sequence as Items
from dataclasses import dataclass, replace
from functools import partial

from antiphon.core.errors import ConfigError, StateError
from antiphon.engine.block_manager import BlockManager
from antiphon.engine.block_table import BlockMove, CutPlan
from antiphon.engine.context_window import Cut
from antiphon.engine.reclaim import Reclaimer, order
from antiphon.engine.sequence import Sequence, SequenceEvent, SequenceState, StepRow
from antiphon.engine.sequence_book import SequenceBook

_S, _E = SequenceState, SequenceEvent


@dataclass(frozen=True, kw_only=True)
class SchedulerConfig:
    """Limits of one stage.

    Attributes:
        max_num_seqs: sequences that run together.
        max_batched_tokens: tokens of one step.
        max_tokens_beside_decode: prefill tokens of a step that also decodes: they delay every decoding sequence.
        max_model_len: positions of one sequence.
        max_waiting: sequences that were never run yet.
        max_pieces: extensions that wait for one sequence's turn to end.
        max_in_flight: rows of one sequence launched and not committed: 2 runs a step ahead of the host.
    """

    max_num_seqs: int = 16
    max_batched_tokens: int = 4096
    max_tokens_beside_decode: int = 1024
    max_model_len: int = 40_960
    max_waiting: int = 256
    max_pieces: int = 64
    max_in_flight: int = 2

    def __post_init__(self) -> None:
        if min(vars(self).values()) < 1:
            raise ConfigError(f"scheduler: every limit must be at least 1, not {self}")
        if self.max_batched_tokens <= self.max_num_seqs:
            raise ConfigError(
                f"scheduler: max_batched_tokens {self.max_batched_tokens} must exceed max_num_seqs "
                f"{self.max_num_seqs}, or prefill starves; raise it"
            )


@dataclass(frozen=True)
class ScheduledStep:
    """What to launch: first all *moves* in their order, then the rows. Each row must be committed exactly once.

    Moves are valid without rows and must be issued even then.
    """

    decodes: tuple[StepRow, ...]
    prefills: tuple[StepRow, ...]
    moves: tuple[BlockMove, ...]
    preempted: tuple[Sequence, ...]  # lost a seat or a cache in this call

    @property
    def rows(self) -> tuple[StepRow, ...]:
        return self.decodes + self.prefills


class Scheduler:
    """Books steps and takes their results. Events of a sequence (admit, extend, park …) go to `book`.

    Attributes:
        num_hit_tokens: prompt tokens that the prefix cache spared.
        num_asked_tokens: prompt tokens that were looked for in it.
        num_rebuilt: caches lost because a cut had no room.
    """

    def __init__(self, config: SchedulerConfig, blocks: BlockManager) -> None:
        num_tokens = blocks.num_blocks * blocks.block_size
        if num_tokens < config.max_model_len:
            raise ConfigError(
                f"KV cache of {blocks.num_blocks} blocks holds {num_tokens} tokens, too few for one sequence of "
                f"{config.max_model_len}; give it {blocks.blocks_for(config.max_model_len)} or lower max_model_len"
            )
        self.config, self.blocks = config, blocks
        self.book = SequenceBook(
            blocks,
            max_model_len=config.max_model_len,
            max_waiting=config.max_waiting,
            max_pieces=config.max_pieces,
        )
        self.num_hit_tokens = self.num_asked_tokens = self.num_rebuilt = 0
        self._reclaimer = Reclaimer(self.book, blocks, max_num_seqs=config.max_num_seqs)

    def schedule(self) -> ScheduledStep:
        """Book the next step. Never blocks; no rows means that nothing can run before a commit or an event."""
        held = self._reclaimer.begin_step()
        decodes, prefills = self._book_rows(held)
        if held and not self.book.has_rows_in_flight:
            # Whoever wanted their room could not use it after all, and no commit would wake anybody.
            decodes, prefills = self._book_rows(set())
        return ScheduledStep(decodes, prefills, tuple(self._reclaimer.moves), tuple(self._reclaimer.preempted))

    def commit(self, row: StepRow, ids: Items[int] = ()) -> bool:
        """Take a finished row back, in the order of launches.

        A turn that only computes ends by itself. One that draws goes on until `end_turn`: the caller ends it at a stop
        id, or when `draws_left` is 0.

        Args:
            row: from a scheduled step.
            ids: the token that was drawn; empty if it must not stay in the context (then end the turn).

        Returns:
            False if the row is stale, because its sequence was stopped since: its results must be dropped.
        """
        seq = row.seq
        if not seq.in_flight or seq.in_flight[0] is not row:
            raise StateError(f"sequence {seq.seq_id}: rows are committed once each, in the order of launches")
        seq.in_flight.popleft()
        if seq.state is not _S.RUNNING:
            if not seq.in_flight:
                self.book.settle(seq)
            return False
        seq.commit(row, ids)
        self.blocks.record(seq.table, seq.tokens, seq.media, seq.num_computed)
        if seq.max_draws == 0 and not seq.in_flight and seq.num_uncomputed == 0:
            self.book.end_turn(seq.seq_id)
        return True

    def cut(self, seq_id: str, cut: Cut) -> CutPlan:
        """Shorten a parked sequence's context; the plan must be carried out before the next launch.

        Parked caches of others leave for the host if that makes room. Without room, or with the cache away,
        the rest is computed anew when the sequence resumes. That is close to, but not what the cut gives: the kept rows
        no longer carry what they saw of the dropped ones.

        Raises:
            StateError: rows are in flight, or the cut is not of this context.
        """
        seq = self.book.get(seq_id)
        if seq.in_flight or seq.state not in (_S.PARKED, _S.SPILLED):
            raise StateError(f"sequence {seq_id} is {seq.state.value} with {len(seq.in_flight)} rows in flight: no cut")
        num_computed, gap = seq.num_computed, seq.gap
        seq.apply_cut(cut)
        kept, tail_start = cut.prefix[1], cut.tail[0]
        is_here = seq.state is _S.PARKED and (gap is None or kept <= gap[0] <= gap[1] <= tail_start)
        if is_here and num_computed <= kept:
            return CutPlan()
        plan: CutPlan | None = None
        moves: tuple[BlockMove, ...] = ()
        if is_here:
            run = partial(
                self.blocks.cut,
                seq.table,
                prefix_len=kept,
                gap_len=len(cut.refeed_ids),
                tail_start=tail_start,
                num_computed=num_computed,
            )
            plan = run()
            if plan is None:
                moves = self._reclaimer.spill_others(seq, self.blocks.blocks_for(cut.length))
                plan = run()
        if plan is None:
            self.num_rebuilt += 1
            if seq.state is _S.SPILLED:
                self.book.fire(seq, _E.RESTORE)
            self.book.drop_cache(seq)
        return replace(plan or CutPlan(), moves=moves)

    def snapshot(self) -> dict[str, int]:
        """Gauges: sequences by state, blocks by use; counters."""
        return {
            **{f"num_{state.value}": count for state, count in self.book.count_states().items()},
            "num_settling": len(self.book.settling),
            "blocks_used": self.blocks.num_used,
            "blocks_free": self.blocks.num_free,
            "host_blocks_used": self.blocks.num_host_used,
            "prefix_hit_tokens": self.num_hit_tokens,
            "prefix_asked_tokens": self.num_asked_tokens,
            "preemptions": self._reclaimer.num_preempted,
            "rebuilds": self.num_rebuilt,
        }

    def _book_rows(self, held: set[Sequence]) -> tuple[tuple[StepRow, ...], tuple[StepRow, ...]]:
        decodes = [
            seq.book_decode()
            for seq in sorted(self.book.running, key=order)
            # Room for the token that is drawn but not known here: up to two more than the host has seen.
            if seq.is_decoding and self._can_take_row(seq, held) and self._reclaimer.grow(seq, seq.num_booked + 1)
        ]
        budget = self.config.max_batched_tokens - len(decodes)
        if decodes:
            budget = min(budget, self.config.max_tokens_beside_decode)
        prefills: list[StepRow] = []
        may_start = True
        for seq in sorted([*self.book.running, *self.book.queue], key=order):
            if seq.state is not _S.RUNNING and may_start and not seq.in_flight:
                may_start = self._start(seq)
            if (
                budget > 0
                and not seq.is_decoding
                and self._can_take_row(seq, held)
                and self._reclaimer.grow(seq, self._room_for(seq))
            ):
                prefills.append(seq.book_prefill(budget))
                budget -= prefills[-1].num_tokens
            may_start = may_start and budget > 0
        return tuple(decodes), tuple(prefills)

    def _can_take_row(self, seq: Sequence, held: set[Sequence]) -> bool:
        if seq.state is not _S.RUNNING or seq in held or seq in self._reclaimer.wanted:
            return False
        if seq.gap:
            return not seq.in_flight
        if len(seq.in_flight) >= self.config.max_in_flight:
            return False
        return seq.draws_left > 0 if seq.is_decoding else seq.num_uncomputed > 0

    def _room_for(self, seq: Sequence) -> int:
        """Positions of all known tokens and the first drawn one."""
        return min(len(seq.tokens) + 1, self.config.max_model_len)

    def _start(self, seq: Sequence) -> bool:
        if not self._reclaimer.take_seat(seq):
            return False
        is_empty = not seq.table.blocks and seq.state is not _S.SPILLED
        if is_empty:
            seq.num_computed = self.blocks.match(seq.table, seq.tokens, seq.media)
        num_missing = self.blocks.blocks_for(self._room_for(seq)) - len(seq.table.blocks)
        # Each running sequence may soon want a block: to start into their last ones is to be preempted at once.
        if not self._reclaimer.make_room(seq, num_missing + len(self.book.running)):
            if is_empty:
                self.book.drop_cache(seq)
            return False
        if seq.state is _S.SPILLED:
            self._reclaimer.restore(seq)
        has_grown = self.blocks.grow(seq.table, self._room_for(seq))
        assert has_grown
        if is_empty:
            self.num_hit_tokens += seq.num_computed
            self.num_asked_tokens += len(seq.tokens)
        if seq.num_cached_tokens is None:
            seq.num_cached_tokens = seq.num_computed
        self.book.fire(seq, _E.RESUME if seq.state is _S.PARKED else _E.SCHEDULE)
        return True
