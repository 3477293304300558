from antiphon.core.handoff import Handoff
from antiphon.core.outputs import FinishReason
from antiphon.engine.code_buffer import CodeBuffer, CodeChunk
from antiphon.pipeline.spoken_turn import ConditionPlan, SpokenTurn


def stream(max_codes: int = 100, *, is_chunked: bool = True) -> SpokenTurn:
    return SpokenTurn(Handoff.STREAM, min_codes=0, max_codes=max_codes, is_chunked=is_chunked)


def speak(turn: SpokenTurn, num_codes: int, *, by_eos: bool = True) -> list[CodeChunk]:
    assert turn.next_condition() is not None
    chunks = turn.draw(range(num_codes))
    return [*chunks, *turn.end_condition(by_eos=by_eos)]


def test_a_span_is_one_condition_with_its_limits() -> None:
    turn = SpokenTurn(Handoff.SPAN, min_codes=5, max_codes=100)
    turn.push(30, is_last=True)
    assert turn.next_condition() == ConditionPlan(0, is_last=True, min_codes=5, max_codes=100)
    assert turn.next_condition() is None


def test_conditions_are_drawn_one_after_another() -> None:
    turn = stream()
    turn.push(10, is_last=False)
    turn.push(3, is_last=True)
    assert turn.next_condition() == ConditionPlan(0, is_last=False, min_codes=0, max_codes=100)
    assert turn.next_condition() is None
    turn.draw(range(20))
    assert turn.end_condition(by_eos=True) == []
    assert turn.next_condition() == ConditionPlan(1, is_last=True, min_codes=0, max_codes=80)


def test_chunks_leave_while_the_turn_is_drawn_and_are_those_of_one_push() -> None:
    turn = stream()
    turn.push(10, is_last=True)
    turn.next_condition()
    chunks = [chunk for code in range(60) for chunk in turn.draw([code])]
    assert len(chunks) == 2
    chunks += turn.end_condition(by_eos=True)
    assert chunks == CodeBuffer().push(range(60), first=False, end_of_turn=True)
    assert (turn.is_ended, turn.reason) == (True, FinishReason.STOP)


def test_unchunked_codes_leave_at_the_end() -> None:
    turn = stream(is_chunked=False)
    turn.push(10, is_last=True)
    turn.next_condition()
    assert turn.draw(range(60)) == []
    assert turn.end_condition(by_eos=True) == CodeBuffer().push(range(60), first=False, end_of_turn=True)


def test_a_limit_ends_the_turn_and_pieces_behind_it_are_not_spoken() -> None:
    turn = stream(max_codes=40)
    turn.push(10, is_last=False)
    chunks = speak(turn, 40, by_eos=False)
    assert (turn.is_ended, turn.reason) == (True, FinishReason.LENGTH)
    assert chunks[-1].is_last
    turn.push(5, is_last=True)
    assert turn.next_condition() is None


def test_a_full_turn_is_cut_off_even_if_its_piece_ended_by_itself() -> None:
    turn = stream(max_codes=20)
    turn.push(10, is_last=False)
    speak(turn, 20, by_eos=True)
    assert turn.reason is FinishReason.LENGTH


def test_a_last_piece_without_text_closes_what_was_spoken() -> None:
    turn = stream()
    turn.push(10, is_last=False)
    speak(turn, 7)
    turn.push(0, is_last=True)
    plan = turn.next_condition()
    assert plan is not None
    assert plan.is_last


def test_nothing_to_speak_ends_without_a_reason() -> None:
    for handoff in Handoff:
        turn = SpokenTurn(handoff, min_codes=0, max_codes=9)
        turn.push(0, is_last=True)
        assert turn.next_condition() is None
        assert (turn.is_ended, turn.reason) == (True, None)


def test_a_piece_that_gives_no_code_leaves_nothing_to_close() -> None:
    turn = stream()
    turn.push(10, is_last=False)
    assert speak(turn, 0) == []
    turn.push(0, is_last=True)
    assert turn.next_condition() is None
    assert (turn.is_ended, turn.reason) == (True, None)


def test_an_end_without_any_code_has_a_reason_but_no_chunk() -> None:
    turn = stream()
    turn.push(10, is_last=True)
    assert speak(turn, 0) == []
    assert (turn.is_ended, turn.reason) == (True, FinishReason.STOP)
