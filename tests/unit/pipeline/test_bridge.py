from collections.abc import Sequence

import pytest

from antiphon.core.handoff import Handoff
from antiphon.pipeline.bridge import AnswerBridge, AnswerStops, Piece, SpeechBridge
from antiphon.prompt.tokenizer import Tokenizer

TOKENIZER = Tokenizer.placeholder(1_000)
SPECIAL = TOKENIZER.special


def pieces(ids: Sequence[int], handoff: Handoff) -> list[Piece]:
    bridge = SpeechBridge(SPECIAL, handoff)
    found = []
    for token_id in ids:
        bridge.push(token_id)
        piece = bridge.take_piece()
        if piece is not None:
            found.append(piece)
    return found if bridge.is_done else [*found, bridge.finish()]


def test_a_span_is_handed_on_whole_at_its_end() -> None:
    assert pieces(range(35), Handoff.SPAN) == [Piece(0, 35, is_last=True)]


def test_a_full_piece_waits_for_a_token_behind_it() -> None:
    assert pieces(range(10), Handoff.STREAM) == [Piece(0, 10, is_last=True)]
    assert pieces(range(11), Handoff.STREAM) == [Piece(0, 10, is_last=False), Piece(10, 11, is_last=True)]


def test_an_answer_without_tokens_ends_with_an_empty_piece() -> None:
    assert pieces([], Handoff.STREAM) == pieces([], Handoff.SPAN) == [Piece(0, 0, is_last=True)]


@pytest.mark.parametrize("handoff", list(Handoff))
def test_what_stands_before_the_last_speech_mark_is_not_spoken(handoff: Handoff) -> None:
    assert pieces([5, 6, SPECIAL.tts_bos, 7, 8], handoff) == [Piece(3, 5, is_last=True)]


@pytest.mark.parametrize("handoff", list(Handoff))
def test_thoughts_are_not_spoken(handoff: Handoff) -> None:
    ids = [SPECIAL.think_start, *range(30), SPECIAL.think_end, 7]
    assert pieces(ids, handoff) == [Piece(32, 33, is_last=True)]


def test_speech_ends_at_its_boundary_when_the_text_goes_on() -> None:
    ids = [1, 2, SPECIAL.tts_eos, 3, *range(20)]
    assert pieces(ids, Handoff.SPAN) == [Piece(0, 2, is_last=True)]
    assert pieces(ids, Handoff.STREAM) == [Piece(0, 2, is_last=True)]


def test_a_span_reaches_to_its_last_boundary() -> None:
    assert pieces([1, SPECIAL.tts_eos, 2, SPECIAL.tts_eos, 3], Handoff.SPAN) == [Piece(0, 3, is_last=True)]


def test_tokens_behind_a_stop_string_are_neither_counted_nor_spoken() -> None:
    stops = AnswerStops(TOKENIZER, ["w302"])
    assert [stops.push(token_id) for token_id in (300, 301, 302)] == [False, False, True]
    assert stops.num_kept == 2
    bridge = AnswerBridge(TOKENIZER, Handoff.SPAN, ["w302"])
    assert bridge.push([300, 301, 302, 303]) == 3
    assert bridge.is_stopped
    bridge.finish()
    assert bridge.take(3) == [Piece(0, 2, is_last=True)]
    assert bridge.ids == [300, 301, 302]


def test_a_stop_string_beats_a_piece_that_it_would_have_completed() -> None:
    bridge = AnswerBridge(TOKENIZER, Handoff.STREAM, ["w310"])
    assert bridge.push(range(300, 312)) == 11
    bridge.finish()
    assert bridge.take(11) == [Piece(0, 10, is_last=True)]


def test_pieces_wait_for_their_rows_in_order() -> None:
    bridge = AnswerBridge(TOKENIZER, Handoff.STREAM, [])
    bridge.push(range(300, 312))
    bridge.finish()
    assert bridge.take(9) == []
    assert bridge.take(10) == [Piece(0, 10, is_last=False)]
    assert bridge.take(12) == [Piece(10, 12, is_last=True)]


def test_text_that_is_not_spoken_has_no_pieces() -> None:
    bridge = AnswerBridge(TOKENIZER, None, [])
    assert bridge.push([300, 301]) == 2
    bridge.finish()
    assert bridge.take(2) == []
