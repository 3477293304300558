"""The batched decision against the eager one, draw by draw. Ids 0 to 9 have roles, 20 to 29 are favourites."""

from dataclasses import replace

import pytest
import torch

from antiphon.engine.counter_noise import CounterNoise
from antiphon.engine.duplex_decision import DecisionIds, DecisionSampling, decide
from antiphon.engine.duplex_memory import DuplexMemory
from antiphon.engine.duplex_sampler import advance_rows, decide_rows
from antiphon.engine.duplex_sampler_state import DuplexState
from antiphon.engine.duplex_turn import DuplexTurn, duplex_ids
from antiphon.engine.text_sampler import SampleKind, kind_for
from antiphon.engine.text_sampler_state import SeatRule
from antiphon.engine.thinker_messages import DuplexRule
from antiphon.layers.decision_rows import ID_MASK, Column

VOCAB = 700
IDS = DecisionIds(chunk_eos=1, turn_eos=2, tokenizer_eos=3, forbidden=(6, 7, 8))
LISTEN, TTS_BOS, CHUNK_TTS_EOS = 4, 5, 9
PLAIN = DecisionSampling()
SAMPLINGS = [
    PLAIN,
    DecisionSampling(is_greedy=True),
    replace(PLAIN, temperature=1.4, top_k=100, top_p=1.0, length_penalty=0.7, penalty_window=3),
    replace(PLAIN, top_p=0.0, repetition_penalty=1.6, penalty_window=40),
    replace(PLAIN, listen_prob_scale=0.3, listen_top_k=4),
    replace(PLAIN, temperature=0.9, top_p=0.3, repetition_penalty=0.8),
]
ODD = [replace(PLAIN, top_k=0), replace(PLAIN, top_k=300, temperature=2.0), replace(PLAIN, listen_top_k=200)]


def rule_for(sampling: DecisionSampling, seed: int) -> DuplexRule:
    return DuplexRule(
        sampling=sampling,
        ids=IDS,
        listen_id=LISTEN,
        tts_bos_id=TTS_BOS,
        chunk_tts_eos_id=CHUNK_TTS_EOS,
        max_tokens=10**6,
        seed=seed,
    )


class Eager:
    """The slow twin of one seat, without a model."""

    def __init__(self, rule: DuplexRule) -> None:
        self.rule, self.noise = rule, CounterNoise(rule.seed)
        self.history: list[int] = []
        self.is_turn_open = False

    def step(self, logits: torch.Tensor) -> int:
        decision = decide(logits, self.history, self.rule.sampling, IDS, self.noise)
        if decision.is_recorded:
            self.history.append(decision.token_id)
        token = decision.token_id
        if token == LISTEN and self.is_turn_open:
            token = TTS_BOS
        if token not in self.rule.terminators:
            self.is_turn_open = token != IDS.turn_eos
        return token


def make_logits(generator: torch.Generator, num_rows: int) -> torch.Tensor:
    logits = torch.randn(num_rows, VOCAB, generator=generator) * 2
    logits[:, 20:30] += 5
    logits[:, :10] += 4
    return logits


def make_state(num_rows: int) -> DuplexState:
    state = DuplexState(num_rows + 1, VOCAB, torch.device("cpu"))
    state.set_ids(duplex_ids(rule_for(PLAIN, 0)))
    return state


@pytest.mark.parametrize("sorts_all", [False, True])
def test_every_row_decides_what_the_eager_decision_does(sorts_all: bool) -> None:
    rules = [rule_for(sampling, 2**40 + index) for index, sampling in enumerate(SAMPLINGS + (ODD if sorts_all else []))]
    turns, memories = [DuplexTurn(rule, wants_hidden=False) for rule in rules], [DuplexMemory() for _ in rules]
    twins, state = [Eager(rule) for rule in rules], make_state(len(rules))
    seats, generator, drawn = torch.arange(len(rules)), torch.Generator().manual_seed(1), set()
    for step in range(800):
        if step % 20 == 0:  # a new unit: the seats are taken anew from what the host knows
            state.load(
                range(len(rules)), [turn.seat_rule(memory) for turn, memory in zip(turns, memories, strict=True)]
            )
        logits = make_logits(generator, len(rules))
        decisions = decide_rows(logits, seats, state, sorts_all=sorts_all)
        wanted = [twin.step(row) for twin, row in zip(twins, logits, strict=True)]
        assert (decisions & ID_MASK).tolist() == wanted
        advance_rows(decisions, seats, state)
        for turn, memory, decision in zip(turns, memories, decisions.tolist(), strict=True):
            turn.take(decision, turn.judge(decision)[0], memory)
        drawn.update(wanted)
        assert [memory.is_turn_open for memory in memories] == [twin.is_turn_open for twin in twins]
    assert {1, 2, LISTEN, TTS_BOS, CHUNK_TTS_EOS, IDS.tokenizer_eos} <= drawn
    for twin, memory in zip(twins, memories, strict=True):
        assert list(memory.history) == twin.history[-512:]
        assert memory.num_noise == twin.noise.step * (not twin.rule.sampling.is_greedy)


def test_a_seat_that_is_taken_in_the_middle_decides_on_with_a_full_window() -> None:
    turn, memory, whole = DuplexTurn(rule_for(PLAIN, 5), wants_hidden=False), DuplexMemory(), make_state(1)
    generator, seats = torch.Generator().manual_seed(3), torch.tensor([0])
    whole.load([0], [turn.seat_rule(memory)])
    for _ in range(700):  # more than the window holds
        decision = decide_rows(make_logits(generator, 1), seats, whole, sorts_all=False)
        advance_rows(decision, seats, whole)
        turn.take(int(decision), turn.judge(int(decision))[0], memory)
    later = make_state(1)
    later.load([0], [turn.seat_rule(memory)])
    whole.numbers[0, Column.IS_TURN_OPEN] = memory.is_turn_open  # a terminator may have been last
    for _ in range(200):
        logits = make_logits(generator, 1)
        first, second = (decide_rows(logits, seats, state, sorts_all=False) for state in (whole, later))
        assert first == second
        advance_rows(first, seats, whole)
        advance_rows(second, seats, later)


@pytest.mark.parametrize(
    ("sessions", "has_text", "kind"),
    [
        ([PLAIN], False, SampleKind.DUPLEX),
        ([PLAIN, SAMPLINGS[1]], True, SampleKind.DUPLEX_TOP_K),
        ([replace(PLAIN, is_greedy=True, top_k=0)], False, SampleKind.DUPLEX),
        *(([PLAIN, odd], False, SampleKind.DUPLEX_SORT) for odd in ODD),
    ],
)
def test_a_batch_gets_the_cheapest_kind_that_serves_its_sessions(
    sessions: list[DecisionSampling], has_text: bool, kind: SampleKind
) -> None:
    rules = [DuplexTurn(rule_for(sampling, 0), False).seat_rule(DuplexMemory()) for sampling in sessions]
    text = SeatRule(
        temperature=0.0,
        top_p=1.0,
        min_p=0.0,
        repetition_penalty=1.0,
        frequency_penalty=0.0,
        presence_penalty=0.0,
        top_k=0,
        seed=0,
        banned=(),
        draw_step=0,
        turn_step=0,
        generated=(),
    )
    assert kind_for([*rules, *([text] if has_text else [])]) is kind
    assert kind_for([*rules, replace(text, temperature=1.0)]) is SampleKind.DUPLEX_SORT
    assert [entry.text_kind for entry in SampleKind] == [
        *list(SampleKind)[:4],
        None,
        SampleKind.TOP_K,
        SampleKind.SORT,
    ]
