import pytest

from antiphon.core.errors import StateError
from antiphon.engine.block_manager import BlockManager
from antiphon.engine.sequence import Piece, Sequence, SequenceEvent, SequenceState
from antiphon.engine.sequence_book import SequenceBook


@pytest.fixture
def book():
    return SequenceBook(BlockManager(8), max_model_len=128, max_waiting=4, max_pieces=2)


def admit(book, *, is_resumable=True, max_draws=1):
    seq = Sequence("s", Piece(ids=(1, 2), max_draws=max_draws), is_resumable=is_resumable)
    book.admit(seq)
    return seq


def start(book, seq):
    book.fire(seq, SequenceEvent.SCHEDULE)
    assert book.blocks.grow(seq.table, 2)
    return seq.book_prefill(2)


def test_a_sequence_stands_in_one_place(book):
    seq = admit(book)
    assert list(book.queue) == [seq]
    start(book, seq)
    assert (list(book.queue), list(book.running)) == ([], [seq])
    book.end_turn("s")
    assert (list(book.running), list(book.idle), list(book.settling)) == ([], [seq], [seq])
    book.extend("s", Piece(ids=(3,)))
    assert (list(book.idle), list(book.queue)) == ([], [seq])


def test_an_ended_sequence_keeps_its_blocks_until_it_has_settled(book):
    seq = admit(book, is_resumable=False)
    row = start(book, seq)
    book.end_turn("s")
    assert (seq.state, book.blocks.num_used, book.has_rows_in_flight) == (SequenceState.FINISHED, 1, True)
    assert seq.in_flight.popleft() is row
    book.settle(seq)
    assert (book.blocks.num_used, book.has_rows_in_flight) == (0, False)


def test_a_sequence_broken_off_before_it_ran_keeps_its_tokens(book):
    seq = admit(book)
    book.park("s")
    book.extend("s", Piece(ids=(3,), max_draws=1))
    assert (seq.state, seq.tokens) == (SequenceState.PARKED, [1, 2, 3])
    assert list(book.queue) == [seq]


def test_a_closed_session_finishes_after_the_piece_that_waited(book):
    seq = admit(book)
    book.extend("s", Piece(ids=(3,), max_draws=1))
    book.close_input("s")
    book.park("s")
    assert seq.is_open
    book.park("s")
    assert seq.state is SequenceState.FINISHED
    with pytest.raises(StateError, match="no live sequence s"):
        book.close_input("s")


def test_an_extension_of_a_closed_session_is_refused(book):
    admit(book)
    book.close_input("s")
    with pytest.raises(StateError, match="takes no more input"):
        book.extend("s", Piece(ids=(3,)))
