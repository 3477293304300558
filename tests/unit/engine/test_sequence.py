import itertools

import pytest

from antiphon.core.errors import StateError
from antiphon.engine.prefix_hash import MediaSpan
from antiphon.engine.sequence import TRANSITIONS, Piece, Sequence, SequenceEvent, SequenceState


def build(ids=(1, 2, 3), **piece):
    seq = Sequence("s", Piece(ids=tuple(ids), **piece), is_resumable=True)
    seq.max_positions = 100
    return seq


@pytest.mark.parametrize(("state", "event"), list(itertools.product(SequenceState, SequenceEvent)))
def test_every_event_follows_the_table_or_is_refused_by_name(state, event):
    seq = build()
    seq.state = state
    if (state, event) in TRANSITIONS:
        seq.fire(event)
        assert seq.state is TRANSITIONS[state, event]
    else:
        with pytest.raises(StateError, match=f"no event {event.value} in state {state.value}"):
            seq.fire(event)
        assert seq.state is state


def test_an_end_is_final_and_every_live_state_can_be_aborted():
    ends = {SequenceState.FINISHED, SequenceState.ABORTED}
    assert not any(state in ends for state, _ in TRANSITIONS)
    for state in set(SequenceState) - ends - {SequenceState.NEW}:
        assert TRANSITIONS[state, SequenceEvent.ABORT] is SequenceState.ABORTED


def test_rows_in_flight_book_positions_while_the_sequence_runs():
    seq = build(max_draws=3)
    seq.state = SequenceState.RUNNING
    first, last = seq.book_prefill(2), seq.book_prefill(9)
    decode = seq.book_decode()
    assert [(row.start, row.num_tokens, row.draws, row.draw_step) for row in (first, last, decode)] == [
        (0, 2, False, 0),
        (2, 1, True, 0),
        (3, 1, True, 1),
    ]
    assert (seq.num_booked, seq.num_computed, seq.draws_left) == (4, 0, 1)
    seq.state = SequenceState.PARKED
    assert seq.num_booked == 0


def test_no_more_is_drawn_than_positions_are_left():
    seq = build(max_draws=9)
    seq.max_positions = 5
    seq.state = SequenceState.RUNNING
    seq.book_prefill(9)
    assert seq.draws_left == 1


def test_media_of_a_later_piece_stand_behind_the_tokens_before_it():
    seq = build(media=(MediaSpan(0, 1, b"a", 7),))
    seq.absorb(Piece(ids=(4, 5), media=(MediaSpan(1, 2, b"b", 8),)))
    assert seq.media == [MediaSpan(0, 1, b"a", 7), MediaSpan(4, 5, b"b", 8)]


def test_nothing_is_absorbed_into_a_turn_that_draws():
    seq = build(max_draws=2)
    assert not seq.can_absorb()
    seq.close_turn()
    assert seq.can_absorb()
