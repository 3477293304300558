"""All sequences of one Thinker, what may happen to them, and which of them run, wait or idle."""

from antiphon.core.errors import CapacityError, ContextLengthError, StateError
from antiphon.engine.block_manager import BlockManager
from antiphon.engine.sequence import Piece, Sequence, SequenceEvent, SequenceState

_S, _E = SequenceState, SequenceEvent


class SequenceBook:
    """Where every live sequence stands.

    Invariant: a live sequence is in exactly one of running, queue (wants to run) and idle (parked, spilled); a sequence
    that does not run but still has rows in flight is settling as well, and keeps its seat and blocks until then.

    Args:
        blocks: where ended sequences give their blocks back to.
        max_model_len: positions of one sequence.
        max_waiting: sequences that were never run yet.
        max_pieces: extensions that wait for one sequence's turn to end.
    """

    def __init__(self, blocks: BlockManager, *, max_model_len: int, max_waiting: int, max_pieces: int) -> None:
        self.blocks = blocks
        self.max_model_len, self.max_waiting, self.max_pieces = max_model_len, max_waiting, max_pieces
        # Dictionaries serve as ordered sets.
        self.running: dict[Sequence, None] = {}
        self.queue: dict[Sequence, None] = {}
        self.idle: dict[Sequence, None] = {}  # longest idle first
        self.settling: dict[Sequence, None] = {}
        self._live: dict[str, Sequence] = {}
        self._next_serial = 0

    def admit(self, seq: Sequence) -> None:
        """Take a new sequence in.

        Raises:
            ContextLengthError: its prompt can never fit.
            CapacityError: the queue is full.
            StateError: its id is in use.
        """
        if seq.seq_id in self._live:
            raise StateError(f"sequence {seq.seq_id} lives already; abort it before another takes its id")
        self._require_fit(seq.seq_id, 0, len(seq.tokens), seq.max_draws)
        num_waiting = sum(other.state is _S.WAITING for other in self.queue)
        if num_waiting >= self.max_waiting:
            raise CapacityError(f"thinker queue: {num_waiting} sequences wait already, its limit; try again later")
        seq.serial, seq.max_positions = self._next_serial, self.max_model_len
        self._next_serial += 1
        self._live[seq.seq_id] = seq
        self.fire(seq, _E.ADMIT)

    def extend(self, seq_id: str, piece: Piece) -> None:
        """Append to a resumable sequence, now or, while it draws, after the turn.

        Raises:
            ContextLengthError: it might not fit once everything before it is drawn.
            CapacityError: too many pieces wait.
        """
        seq = self.get(seq_id)
        if not seq.is_resumable or seq.is_closed:
            raise StateError(f"sequence {seq_id} takes no more input")
        self._require_fit(seq_id, seq.max_len, len(piece.ids), piece.max_draws)
        if seq.can_absorb():
            seq.absorb(piece)
            self._file(seq)
            return
        if len(seq.pieces) >= self.max_pieces:
            raise CapacityError(f"sequence {seq_id}: {len(seq.pieces)} pieces wait already, its limit; send them later")
        seq.pieces.append(piece)

    def park(self, seq_id: str) -> None:
        """Break the turn off: what is in flight is dropped, what was committed stays. Waiting pieces come next."""
        seq = self.get(seq_id)
        if not seq.is_resumable:
            raise StateError(f"sequence {seq_id} is not resumable: finish or abort it")
        self._stop(seq)

    def end_turn(self, seq_id: str) -> None:
        """The turn of a running sequence is complete (stop id, length): park it, or finish it if nothing can follow."""
        seq = self.get(seq_id)
        if seq.state is not _S.RUNNING:
            raise StateError(f"sequence {seq_id} is {seq.state.value}: it has no turn to end")
        if seq.is_resumable:
            self._stop(seq)
        else:
            self._end(seq, _E.FINISH)

    def close_input(self, seq_id: str) -> None:
        """No more pieces come: it finishes when the last turn ends, at once if none is open."""
        seq = self.get(seq_id)
        seq.is_closed = True
        if not seq.is_open:
            self._end(seq, _E.FINISH)

    def abort(self, seq_id: str) -> bool:
        """End a sequence at any point; False if there is none (it may just have finished)."""
        seq = self._live.get(seq_id)
        if seq is not None:
            self._end(seq, _E.ABORT)
        return seq is not None

    def get(self, seq_id: str) -> Sequence:
        """The live sequence of that id.

        Raises:
            StateError: there is none.
        """
        seq = self._live.get(seq_id)
        if seq is None:
            raise StateError(f"no live sequence {seq_id}")
        return seq

    @property
    def has_rows_in_flight(self) -> bool:
        return bool(self.settling) or any(seq.in_flight for seq in self.running)

    def count_states(self) -> dict[SequenceState, int]:
        counts = dict.fromkeys(_S, 0)
        for seq in self._live.values():
            counts[seq.state] += 1
        return counts

    def _stop(self, seq: Sequence) -> None:
        """Close the turn; go on with the pieces that waited for it, or finish if none can come."""
        seq.close_turn()
        if seq.state not in (_S.PARKED, _S.SPILLED):
            seq.fire(_E.PARK)
        while seq.pieces and seq.can_absorb():
            seq.absorb(seq.pieces.popleft())
        if seq.is_closed and not seq.is_open:
            self._end(seq, _E.FINISH)
        else:
            self._file(seq)

    def _end(self, seq: Sequence, event: SequenceEvent) -> None:
        seq.close_turn()
        seq.pieces.clear()
        self.fire(seq, event)
        del self._live[seq.seq_id]
        if not seq.in_flight:
            self.settle(seq)

    def settle(self, seq: Sequence) -> None:
        """No row of *seq* is in flight any more."""
        self.settling.pop(seq, None)
        if seq.is_ended:
            self.drop_cache(seq)

    def drop_cache(self, seq: Sequence) -> None:
        """Give all blocks back; what was computed is computed anew if it runs again."""
        self.blocks.release(seq.table)
        seq.forget_cache()

    def fire(self, seq: Sequence, event: SequenceEvent) -> None:
        """Change a sequence's state, and where it stands."""
        seq.fire(event)
        self._file(seq)

    def _file(self, seq: Sequence) -> None:
        """Put *seq* where its state and wishes belong."""
        for place in (self.running, self.queue, self.idle):
            place.pop(seq, None)
        if seq.in_flight and seq.state is not _S.RUNNING:
            self.settling[seq] = None
        if seq.is_ended:
            return
        place = self.running if seq.state is _S.RUNNING else self.queue if seq.is_open else self.idle
        place[seq] = None

    def _require_fit(self, seq_id: str, before: int, num_ids: int, max_draws: int) -> None:
        """*before*: tokens that may come in front, at most."""
        if num_ids == 0:
            raise StateError(f"sequence {seq_id}: nothing to compute; a turn begins with at least one token")
        least = before + num_ids + (max_draws > 0)
        if least > self.max_model_len:
            raise ContextLengthError(
                f"sequence {seq_id}: {num_ids} tokens after up to {before} need {least} positions, the first drawn "
                f"included, of {self.max_model_len}; shorten the input"
            )
