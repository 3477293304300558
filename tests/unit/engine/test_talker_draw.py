"""The batched sampler against the slow rule of `talker_sampling`, and its draws against the distribution."""

import pytest
import torch

from antiphon.engine.counter_noise import CounterNoise
from antiphon.engine.talker_draw import DrawParams, draw_rows, row_probs, tail_of, top_k_of
from antiphon.engine.talker_sampling import TalkerSampling, code_probs

SETTINGS = [
    TalkerSampling(),
    TalkerSampling(top_p=1.0),
    TalkerSampling(top_k=0),
    TalkerSampling(top_k=4, top_p=0.5, min_keep=1),
    TalkerSampling(top_k=2, min_keep=5, top_p=0.01),
    TalkerSampling(top_p=0.0, temperature=1.3, repetition_penalty=1.4),
    TalkerSampling(top_p=1.0, top_k=0),
]


def params(samplings, num_ids, *, has_filters=True):
    def column(values, dtype=torch.float32):
        return torch.tensor(list(values), dtype=dtype)

    return DrawParams(
        temperature=column(s.temperature for s in samplings),
        penalty=column(s.repetition_penalty for s in samplings),
        tail=column(tail_of(s) for s in samplings),
        top_k=column((top_k_of(s, num_ids) for s in samplings), torch.int64),
        min_keep=column((s.min_keep for s in samplings), torch.int64),
        has_filters=column((has_filters for _ in samplings), torch.bool),
        is_greedy=column((False for _ in samplings), torch.bool),
    )


def batched(logits, history, samplings, *, has_filters=True, masks_end=False, num_candidates=None):
    num_rows, num_ids = logits.shape
    recent = torch.zeros(num_rows, 16, dtype=torch.int64)
    recent[:, : history.shape[1]] = history
    is_recent = (torch.arange(16) < history.shape[1]).expand(num_rows, -1)
    return row_probs(
        logits,
        recent,
        is_recent,
        params(samplings, num_ids, has_filters=has_filters),
        is_first=torch.full((num_rows,), history.shape[1] == 0),
        masks_end=torch.full((num_rows,), masks_end),
        num_candidates=num_candidates or num_ids,
    )


def slow(logits, history, samplings, *, has_filters=True, masks_end=False):
    masked_id = logits.shape[1] - 1 if masks_end else None
    return torch.stack(
        [
            code_probs(row, codes, sampling, with_filters=has_filters, masked_id=masked_id)
            for row, codes, sampling in zip(logits, history, samplings, strict=True)
        ]
    )


@pytest.mark.parametrize("masks_end", [False, True])
@pytest.mark.parametrize("spread", [0.1, 1.0, 6.0])
@pytest.mark.parametrize("rounding", [None, torch.bfloat16])
def test_filtered_probabilities_are_those_of_the_slow_rule(masks_end, spread, rounding):
    generator = torch.Generator().manual_seed(round(spread * 10))
    logits = torch.randn(len(SETTINGS), 300, generator=generator) * spread
    if rounding is not None:  # a head in bfloat16 makes equal scores the rule, not the exception
        logits = logits.to(rounding).float()
    history = torch.randint(0, 300, (len(SETTINGS), 16), generator=generator)
    history[:, 8:] = logits.argmax(-1, keepdim=True)
    ours, expected = (rule(logits, history, SETTINGS, masks_end=masks_end) for rule in (batched, slow))
    assert torch.equal(ours > 0, expected > 0)
    torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("top_k", [1, 3, 6, 8, 25])
@pytest.mark.parametrize("top_p", [0.31, 0.5, 0.77, 0.93, 1.0])
def test_equal_scores_at_either_cut_are_kept_as_the_slow_rule_keeps_them(top_k, top_p):
    generator = torch.Generator().manual_seed(top_k)
    sampling = [TalkerSampling(top_k=top_k, top_p=top_p, temperature=1.0)] * 12
    levels = torch.tensor([-3.0, -0.5, 0.0, 0.4, 1.1])
    logits = levels[torch.randint(0, 5, (12, 40), generator=generator)]
    history = torch.zeros(12, 1, dtype=torch.int64)
    ours, expected = (rule(logits, history, sampling) for rule in (batched, slow))
    assert torch.equal(ours > 0, expected > 0)


def test_as_many_candidates_as_top_k_are_enough():
    logits = torch.randn(3, 300, generator=torch.Generator().manual_seed(2)) * 3
    history = torch.randint(0, 300, (3, 5), generator=torch.Generator().manual_seed(3))
    sampling = [TalkerSampling()] * 3
    few = batched(logits, history, sampling, num_candidates=25)
    torch.testing.assert_close(few, slow(logits, history, sampling))


def test_the_very_first_code_knows_neither_penalty_nor_filters():
    logits = torch.randn(2, 50, generator=torch.Generator().manual_seed(2))
    history = torch.zeros(2, 0, dtype=torch.int64)
    sampling = [TalkerSampling()] * 2
    probs = batched(logits, history, sampling)
    assert bool((probs > 0).all())
    torch.testing.assert_close(probs, slow(logits, history, sampling))


def test_without_filters_only_the_penalty_remains():
    logits = torch.randn(2, 50, generator=torch.Generator().manual_seed(2))
    history = torch.tensor([[1, 1, 1], [2, 4, 2]])
    sampling = [TalkerSampling()] * 2
    torch.testing.assert_close(
        batched(logits, history, sampling, has_filters=False), slow(logits, history, sampling, has_filters=False)
    )


def test_a_draw_is_the_eager_twin_s_whatever_the_batch():
    probs = torch.rand(5, 90, generator=torch.Generator().manual_seed(9))
    seeds, steps = torch.tensor([0, 1, 7, 2**40 + 3, 7]), torch.tensor([0, 5, 2, 900, 3])
    codes = draw_rows(probs, seeds, steps, torch.zeros(5, dtype=torch.bool)).tolist()
    assert codes == [
        CounterNoise(int(seed), first_step=int(step)).draw(row)
        for row, seed, step in zip(probs, seeds, steps, strict=True)
    ]


def test_a_greedy_row_takes_the_most_probable():
    probs = torch.rand(2, 90, generator=torch.Generator().manual_seed(9))
    codes = draw_rows(probs, torch.zeros(2).long(), torch.zeros(2).long(), torch.tensor([True, False]))
    assert codes[0] == probs[0].argmax()


@pytest.mark.parametrize("has_filters", [True, False])
def test_draws_follow_the_probabilities(has_filters):
    """Chi-square of 40,000 draws, beside the same of torch.multinomial; 99.9 % quantile by Wilson and Hilferty."""
    logits = torch.randn(1, 64, generator=torch.Generator().manual_seed(12)) * 1.5
    history = torch.tensor([[3, 3, 9]])
    probs = batched(logits, history, [TalkerSampling()], has_filters=has_filters)
    num_draws = 40_000
    rows = probs.expand(num_draws, -1)
    raced = draw_rows(rows, torch.full((num_draws,), 77), torch.arange(num_draws), torch.zeros(num_draws).bool())
    sampled = torch.multinomial(probs[0], num_draws, replacement=True, generator=torch.Generator().manual_seed(1))
    expected = probs[0] * num_draws
    possible = expected > 5
    freedom = int(possible.sum()) - 1
    bound = freedom * (1 - 2 / (9 * freedom) + 3.09 * (2 / (9 * freedom)) ** 0.5) ** 3
    for codes in (raced, sampled):
        counts = torch.bincount(codes, minlength=64).float()
        assert not counts[probs[0] == 0].any()
        assert float(((counts - expected) ** 2 / expected)[possible].sum()) < bound
