"""What one decision of the device means for a unit, its session's memory and the next seat."""

from dataclasses import replace

import pytest

from antiphon.core.errors import SamplingError
from antiphon.engine.duplex_decision import DecisionIds, DecisionSampling
from antiphon.engine.duplex_memory import DuplexMemory
from antiphon.engine.duplex_turn import DuplexTurn
from antiphon.engine.thinker_messages import DuplexRule
from antiphon.layers.decision_rows import RECORDED, REPLACED

RULE = DuplexRule(
    sampling=DecisionSampling(penalty_window=2),
    ids=DecisionIds(chunk_eos=1, turn_eos=2, tokenizer_eos=3, forbidden=(6,)),
    listen_id=4,
    tts_bos_id=5,
    chunk_tts_eos_id=9,
    max_tokens=4,
)


def follow(turn: DuplexTurn, memory: DuplexMemory, *decisions: int) -> list[tuple[int | None, int | None]]:
    verdicts = []
    for decision in decisions:
        verdicts.append(turn.judge(decision))
        turn.take(decision, verdicts[-1][0], memory)
    return verdicts


def test_a_listen_in_an_open_turn_is_fed_as_speech_and_remembered_as_drawn() -> None:
    turn, memory = DuplexTurn(RULE, wants_hidden=True), DuplexMemory()
    assert follow(turn, memory, 20 + RECORDED, 5 + RECORDED + REPLACED) == [(20, None), (5, None)]
    assert (list(memory.history), memory.num_noise, memory.is_turn_open) == ([20, 4], 4, True)


@pytest.mark.parametrize(
    ("decision", "num_noise", "history"), [(1, 1, []), (4 + RECORDED, 2, [4]), (9 + RECORDED, 2, [9])]
)
def test_a_terminator_ends_the_unit_and_is_not_fed(decision: int, num_noise: int, history: list[int]) -> None:
    turn, memory = DuplexTurn(RULE, wants_hidden=True), DuplexMemory()
    assert turn.judge(decision) == (None, decision % RECORDED)
    follow(turn, memory, decision)
    assert (turn.generated, list(memory.history), memory.num_noise, memory.is_turn_open) == (
        [],
        history,
        num_noise,
        False,
    )


def test_the_end_of_a_turn_closes_it_and_a_word_behind_it_opens_it_again() -> None:
    turn, memory = DuplexTurn(RULE, wants_hidden=True), DuplexMemory()
    follow(turn, memory, 20 + RECORDED, 2 + RECORDED)
    assert not memory.is_turn_open
    follow(turn, memory, 21 + RECORDED)
    assert (memory.is_turn_open, turn.is_full, turn.limit_stop_id) == (True, True, 1)


def test_an_id_that_is_not_accepted_counts_as_drawn_and_is_not_fed() -> None:
    seen: list[tuple[int, ...]] = []

    def accepts(ids: tuple[int, ...]) -> bool:
        seen.append(ids)
        return len(ids) < 2

    turn, memory = DuplexTurn(replace(RULE, accepts=accepts), wants_hidden=True), DuplexMemory()
    verdicts = follow(turn, memory, 20 + RECORDED, 21 + RECORDED, 22 + RECORDED)
    assert verdicts == [(20, None), (21, None), (None, 1)]
    assert seen == [(21,), (21, 22)]
    assert (turn.generated, list(memory.history)) == ([20, 21], [20, 21, 22])


def test_a_seat_is_told_the_window_and_a_greedy_one_draws_nothing() -> None:
    greedy = replace(RULE, sampling=DecisionSampling(is_greedy=True, temperature=0.0, penalty_window=2))
    turn, memory = DuplexTurn(greedy, wants_hidden=False), DuplexMemory()
    follow(turn, memory, 20 + RECORDED, 21 + RECORDED, 22 + RECORDED)
    rule = turn.seat_rule(memory)
    assert (rule.history, rule.draw_step, rule.is_turn_open, rule.temperature) == ((21, 22), 0, True, 1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_tokens": 1}, "max_tokens is 1; it must be at least 2"),
        ({"seed": -1}, "seed is -1"),
        ({"sampling": DecisionSampling(penalty_window=513)}, "remembers the last 512 ids"),
    ],
)
def test_a_rule_that_cannot_be_kept_is_refused_by_name(change: dict[str, object], message: str) -> None:
    with pytest.raises(SamplingError, match=message):
        replace(RULE, **change)  # type: ignore[arg-type]
