"""Makes room for the sequence that goes first: whose seat or blocks are taken, and what becomes of their cache."""

from antiphon.engine.block_manager import BlockManager
from antiphon.engine.block_table import BlockMove
from antiphon.engine.sequence import Sequence, SequenceEvent, SequenceState
from antiphon.engine.sequence_book import SequenceBook

_S, _E = SequenceState, SequenceEvent


class Reclaimer:
    """Takes from idle sequences, the longest idle first, then from the last in the order, never from an earlier one.

    Rows in flight are never disturbed: whose room is wanted gets no new row (`wanted`) and loses it when they are back.

    Attributes:
        wanted: whose room is wanted → by whom, noted since `begin_step`.
        moves: copies decided since then, in order.
        preempted: who lost a seat or a cache since then.
        num_preempted: the same over all time.
    """

    def __init__(self, book: SequenceBook, blocks: BlockManager, *, max_num_seqs: int) -> None:
        self.book, self.blocks, self.max_num_seqs = book, blocks, max_num_seqs
        self.wanted: dict[Sequence, Sequence] = {}
        self.moves: list[BlockMove] = []
        self.preempted: list[Sequence] = []
        self.num_preempted = 0

    def begin_step(self) -> set[Sequence]:
        """Start anew. Returns who must not get a row because somebody still waits for its room."""
        held = {seq for seq, by in self.wanted.items() if by.is_open}
        self.wanted, self.moves, self.preempted = {}, [], []
        return held

    def take_seat(self, seq: Sequence) -> bool:
        """Find a seat; from a less urgent class (not merely a later deadline) one is taken, its blocks stay."""
        if len(self.book.running) + len(self.book.settling) < self.max_num_seqs:
            return True
        victim = max((other for other in self.book.running if other.priority > seq.priority), key=order, default=None)
        if victim is None:
            return False
        if victim.in_flight:
            self.wanted[victim] = seq
            return False
        victim.is_decoding = False
        self._preempt(victim)
        return True

    def make_room(self, seq: Sequence, num_blocks: int) -> bool:
        """Free *num_blocks* blocks at the cost of those who are idle or go after *seq*."""
        while self.blocks.num_free < num_blocks:
            victim = self._victim(seq)
            if victim is None:
                return False
            if victim.in_flight:
                self.wanted[victim] = seq
                return False
            if victim.state is not _S.PARKED or not self._spill(victim):
                self.book.drop_cache(victim)
                self._preempt(victim)
        return True

    def spill_others(self, seq: Sequence, num_blocks: int) -> tuple[BlockMove, ...]:
        """Free up to *num_blocks* blocks between two steps at nobody's cost: parked caches go to the host.

        Returns:
            What must be moved before the blocks are written.
        """
        num_moves = len(self.moves)
        for other in [*self.book.idle, *sorted(self.book.queue, key=order, reverse=True)]:
            if self.blocks.num_free >= num_blocks:
                break
            if other is not seq and other.state is _S.PARKED and other.table.blocks and not other.in_flight:
                self._spill(other)
        moves = tuple(self.moves[num_moves:])
        del self.moves[num_moves:]
        return moves

    def grow(self, seq: Sequence, num_tokens: int) -> bool:
        """Make room for *num_tokens* positions of *seq*."""
        num_missing = self.blocks.blocks_for(num_tokens) - len(seq.table.blocks)
        return num_missing <= 0 or (self.make_room(seq, num_missing) and self.blocks.grow(seq.table, num_tokens))

    def restore(self, seq: Sequence) -> None:
        """Bring a spilled cache back; there must be room for all of it."""
        move = self.blocks.restore(seq.table)
        assert move is not None
        self.moves.append(move)
        self.book.fire(seq, _E.RESTORE)

    def _victim(self, seq: Sequence) -> Sequence | None:
        for idle in self.book.idle:
            if idle.table.blocks and not idle.in_flight:
                return idle
        later = (
            other
            for other in [*self.book.running, *self.book.queue]
            if other.table.blocks and other.key > seq.key and other not in self.book.settling
        )
        return max(later, key=order, default=None)

    def _spill(self, seq: Sequence) -> bool:
        self.blocks.trim(seq.table, seq.num_computed)
        move = self.blocks.spill(seq.table) if seq.table.blocks else None
        if move is not None:
            self.moves.append(move)
            self.book.fire(seq, _E.SPILL)
        return move is not None

    def _preempt(self, seq: Sequence) -> None:
        self.book.fire(seq, _E.PREEMPT)
        self.preempted.append(seq)
        self.num_preempted += 1


def order(seq: Sequence) -> tuple[int, float, int]:
    """Sort key: who goes first."""
    return seq.key
