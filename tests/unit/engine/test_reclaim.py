import pytest

from antiphon.engine.block_manager import BlockManager
from antiphon.engine.reclaim import Reclaimer, order
from antiphon.engine.sequence import Piece, Sequence, SequenceEvent, SequenceState
from antiphon.engine.sequence_book import SequenceBook


@pytest.fixture
def reclaimer():
    blocks = BlockManager(4, block_size=4, num_host_blocks=2)
    book = SequenceBook(blocks, max_model_len=16, max_waiting=9, max_pieces=1)
    return Reclaimer(book, blocks, max_num_seqs=2)


def running(reclaimer, seq_id, num_tokens=4, **piece):
    seq = Sequence(seq_id, Piece(ids=(1,) * num_tokens, max_draws=1, **piece), is_resumable=True)
    reclaimer.book.admit(seq)
    reclaimer.book.fire(seq, SequenceEvent.SCHEDULE)
    assert reclaimer.blocks.grow(seq.table, num_tokens)
    seq.num_computed = num_tokens
    return seq


def test_the_idle_are_spilled_first_and_lose_their_cache_when_the_host_is_full(reclaimer):
    idle = [running(reclaimer, name, 8) for name in "ab"]
    for seq in idle:
        reclaimer.book.park(seq.seq_id)
    first = Sequence("c", Piece(ids=(1,)))
    assert reclaimer.make_room(first, 3)
    assert [seq.state for seq in idle] == [SequenceState.SPILLED, SequenceState.PARKED]
    assert (idle[1].num_computed, len(reclaimer.moves), reclaimer.preempted) == (0, 1, [idle[1]])
    assert not reclaimer.make_room(first, 5)


def test_between_steps_only_parked_caches_leave_and_none_is_lost(reclaimer):
    idle, mine = running(reclaimer, "a", 8), running(reclaimer, "b", 8)
    for seq in (idle, mine):
        reclaimer.book.park(seq.seq_id)
    assert len(reclaimer.spill_others(mine, 9)) == 1
    assert [seq.state for seq in (idle, mine)] == [SequenceState.SPILLED, SequenceState.PARKED]
    assert (reclaimer.blocks.num_free, reclaimer.moves, reclaimer.preempted) == (2, [], [])


def test_only_those_who_go_later_lose_their_blocks(reclaimer):
    early = running(reclaimer, "early", 8, deadline_s=1.0)
    late = running(reclaimer, "late", 8, deadline_s=2.0)
    assert not reclaimer.make_room(late, 1)
    assert reclaimer.grow(early, 9)
    assert late.state is SequenceState.PREEMPTED
    assert sorted([late, early], key=order) == [early, late]


def test_rows_in_flight_are_waited_for(reclaimer):
    early = running(reclaimer, "early", 8, deadline_s=1.0)
    late = running(reclaimer, "late", 8, deadline_s=2.0, priority=1)
    late.in_flight.append(None)
    assert not reclaimer.make_room(early, 1)
    assert not reclaimer.take_seat(early)
    assert reclaimer.wanted == {late: early}
    assert reclaimer.begin_step() == {late}
    assert reclaimer.begin_step() == set()


def test_a_seat_is_not_taken_within_a_class(reclaimer):
    running(reclaimer, "a", deadline_s=5.0)
    running(reclaimer, "b", deadline_s=5.0)
    assert not reclaimer.take_seat(Sequence("c", Piece(ids=(1,), deadline_s=1.0)))
