"""Turns a scheduled step into numbers for the device, and lends the device's seats to the sequences that draw."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from antiphon.engine.duplex_seat_rule import DuplexIds, DuplexSeatRule
from antiphon.engine.scheduler import ScheduledStep
from antiphon.engine.sequence import Sequence, SequenceState, StepRow
from antiphon.engine.slots import SlotPool
from antiphon.engine.text_sampler import SampleKind, kind_for
from antiphon.engine.text_sampler_state import SeatRule
from antiphon.engine.thinker_step import MediaPart, PrefillRow, StepInput
from antiphon.engine.thinker_turns import SequenceRecord, rows_within


@dataclass
class Seat:
    """A seat lent to one sequence: its rule, and how much of its block table the device knows."""

    number: int
    rule: SeatRule | DuplexSeatRule
    num_blocks: int


class StepPlanner:
    """Makes launches of scheduled steps.

    Invariant: a sequence has a seat from the launch that draws its first token until it neither runs nor has a row in
    flight. The scheduler lets no more sequences than there are seats be in that state.
    """

    def __init__(self, num_seats: int, bucket_for: Callable[[int], int]) -> None:
        self._pool = SlotPool(num_seats, name="thinker seats")
        self._bucket_for = bucket_for
        self._seats: dict[Sequence, Seat] = {}
        self._told_ids: DuplexIds | None = None

    @property
    def num_lent(self) -> int:
        return self._pool.num_lent

    def plan(
        self, scheduled: ScheduledStep, records: Mapping[str, SequenceRecord], duplex_ids: DuplexIds | None = None
    ) -> StepInput:
        """The launch of *scheduled*, whose sequences are among *records*; *duplex_ids* as far as they are known."""
        self._free_seats()
        new_ids = None if duplex_ids is self._told_ids else duplex_ids
        self._told_ids = duplex_ids
        updates = [update for row in scheduled.decodes for update in self._new_blocks(row.seq)]
        decodes = tuple(self._seats[row.seq].number for row in scheduled.decodes)
        prefills: list[PrefillRow] = []
        media: list[MediaPart] = []
        offset = 0
        for row in scheduled.prefills:
            record = records[row.seq.seq_id]
            end = row.start + row.num_tokens
            media += [MediaPart(offset + at, rows) for at, rows, _ in rows_within(record, row.start, end)]
            prefills.append(self._prefill(row, record))
            offset += row.num_tokens
        drawing = [self._seats[row.seq].rule for row in scheduled.rows if row.draws]
        return StepInput(
            kind=kind_for(drawing) if drawing else SampleKind.GREEDY,
            decodes=decodes,
            bucket=0 if prefills else self._bucket_for(len(decodes)),
            prefills=tuple(prefills),
            media=tuple(media),
            moves=scheduled.moves,
            table_updates=tuple(updates),
            keeps_hidden=any(records[row.seq.seq_id].turn.wants_hidden for row in scheduled.rows if row.draws),
            duplex_ids=new_ids,
        )

    def _prefill(self, row: StepRow, record: SequenceRecord) -> PrefillRow:
        seq = row.seq
        seat = None
        if row.draws:
            rule = record.seat_rule()
            seat = self._seats.get(seq)
            if seat is None:
                seat = self._seats[seq] = Seat(self._pool.lend(seq.seq_id), rule, 0)
            seat.rule, seat.num_blocks = rule, len(seq.table.blocks)
        return PrefillRow(
            ids=tuple(seq.tokens[row.start : row.start + row.num_tokens]),
            start=row.start,
            blocks=tuple(seq.table.blocks),
            seat=-1 if seat is None else seat.number,
            rule=None if seat is None else seat.rule,
            keep_from=_keep_from(row, record),
        )

    def _new_blocks(self, seq: Sequence) -> list[tuple[int, int, int]]:
        seat, blocks = self._seats[seq], seq.table.blocks
        updates = [(seat.number, place, blocks[place]) for place in range(seat.num_blocks, len(blocks))]
        seat.num_blocks = len(blocks)
        return updates

    def _free_seats(self) -> None:
        """Take seats back; one that a prefill row of this step needs again is lent anew, with all of its state."""
        for seq, seat in list(self._seats.items()):
            if seq.state is not SequenceState.RUNNING and not seq.in_flight:
                self._pool.give_back(seat.number, seq.seq_id)
                del self._seats[seq]


def _keep_from(row: StepRow, record: SequenceRecord) -> int | None:
    """The row's first token whose hidden state is to be reported."""
    if record.rows_from is None or record.rows_from >= row.start + row.num_tokens:
        return None
    return max(record.rows_from - row.start, 0)
