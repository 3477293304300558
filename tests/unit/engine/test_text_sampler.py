"""The batched sampler against the eager one, draw by draw."""

from dataclasses import replace

import pytest
import torch

from antiphon.core.sampling import SamplingParams
from antiphon.engine.counter_noise import CounterNoise
from antiphon.engine.text_sampler import SampleKind, draw, kind_for
from antiphon.engine.text_sampler_state import SamplerState, SeatRule
from antiphon.pipeline.eager.text_sampling import TextSampler

VOCAB = 700
END_IDS = (3, 4)
PLAIN = SamplingParams(temperature=0.0, seed=5)
PARAMS = [
    PLAIN,
    replace(PLAIN, repetition_penalty=1.5, min_tokens=5),
    replace(PLAIN, presence_penalty=0.7, frequency_penalty=0.4, ignore_eos=True),
    replace(PLAIN, temperature=0.7, top_p=0.8, top_k=100, repetition_penalty=1.02, seed=2**63 - 1),
    replace(PLAIN, temperature=1.5, top_k=1, min_p=0.1),
    replace(PLAIN, temperature=1.3, top_k=40, stop_token_ids=(9, 11), min_tokens=30),
    replace(PLAIN, temperature=1.0),
    replace(PLAIN, temperature=1.0, top_p=0.6, min_p=0.02),
    replace(PLAIN, temperature=2.0, top_k=300, top_p=0.95, repetition_penalty=0.8),
]


def seat_rule(params: SamplingParams) -> SeatRule:
    stops = set(params.stop_token_ids) | (set() if params.ignore_eos else set(END_IDS))
    never = set(END_IDS) - stops
    return SeatRule(
        temperature=params.temperature,
        top_p=params.top_p,
        min_p=params.min_p,
        repetition_penalty=params.repetition_penalty,
        frequency_penalty=params.frequency_penalty,
        presence_penalty=params.presence_penalty,
        top_k=max(params.top_k, 0),
        seed=params.seed or 0,
        banned=(*((token, 10**6) for token in never), *((token, params.min_tokens) for token in stops)),
        draw_step=0,
        turn_step=0,
        generated=(),
    )


@pytest.mark.parametrize(
    ("chosen", "kind"),
    [
        ([0, 0], SampleKind.GREEDY),
        ([0, 1, 2], SampleKind.PENALISED),
        ([0, 1, 2, 3, 4, 5], SampleKind.TOP_K),
        (list(range(9)), SampleKind.SORT),
    ],
)
def test_every_kind_draws_what_the_eager_sampler_draws(chosen: list[int], kind: SampleKind) -> None:
    rules = [seat_rule(PARAMS[index]) for index in chosen]
    assert kind_for(rules) is kind
    samplers = [
        TextSampler(PARAMS[index], end_ids=END_IDS, vocab_size=VOCAB, noise=CounterNoise(PARAMS[index].seed or 0))
        for index in chosen
    ]
    state = SamplerState(len(rules) + 1, VOCAB, torch.device("cpu"))
    state.load(range(len(rules)), rules)
    seats, generated = torch.arange(len(rules)), [[] for _ in rules]
    generator = torch.Generator().manual_seed(1)
    for _ in range(60):
        logits = torch.randn(len(rules), VOCAB, generator=generator) * 3
        logits[:, 100:110] += 6  # a few favourites, so that penalties matter
        logits[:, 3:5] += 5
        drawn = draw(logits, seats, state, kind)
        wanted = [sampler.draw(row, ids) for sampler, row, ids in zip(samplers, logits, generated, strict=True)]
        assert drawn.tolist() == wanted
        for ids, token in zip(generated, wanted, strict=True):
            ids.append(token)
        state.advance(seats, drawn)


def test_a_seat_that_is_taken_in_the_middle_draws_on() -> None:
    rule = seat_rule(PARAMS[3])
    whole, later = (SamplerState(2, VOCAB, torch.device("cpu")) for _ in range(2))
    whole.load([0], [rule])
    seats, drawn = torch.tensor([0]), []
    logits = torch.randn(20, VOCAB, generator=torch.Generator().manual_seed(3)) * 4
    for row in logits[:12]:
        drawn.append(int(draw(row[None], seats, whole, SampleKind.TOP_K)))
        whole.advance(seats, torch.tensor(drawn[-1:]))
    later.load([1], [replace(rule, draw_step=12, turn_step=12, generated=tuple(drawn))])
    for row in logits[12:]:
        first, second = (
            draw(row[None], torch.tensor([seat]), state, SampleKind.SORT) for seat, state in ((0, whole), (1, later))
        )
        assert first == second
        whole.advance(seats, first)
        later.advance(torch.tensor([1]), second)
