"""Ids: 0 to 3 words, 4 tokenizer end, 5 turn_eos, 6 chunk_eos, 7 forbidden."""

import pytest
import torch

from antiphon.core.errors import SamplingError
from antiphon.engine.duplex_decision import Decision, DecisionIds, DecisionSampling, decide, decision_scores
from antiphon.engine.noise import InverseCdf, Scripted

IDS = DecisionIds(chunk_eos=6, turn_eos=5, tokenizer_eos=4, forbidden=(7,))
PLAIN = {"repetition_penalty": 1.0, "length_penalty": 1.0}


class Recording:
    """Draws the best and keeps what it was shown."""

    def __init__(self):
        self.seen = []

    def draw(self, probs):
        self.seen.append(probs)
        return int(probs.argmax())


def logits(**values):
    row = torch.full((8,), -4.0)
    for name, value in values.items():
        row[int(name[1:])] = value
    return row


def greedy(row, history=(), **kwargs):
    return decide(row, history, DecisionSampling(is_greedy=True, **kwargs), IDS, InverseCdf([]))


def test_chunk_eos_can_only_come_from_the_first_draw_and_is_not_recorded():
    assert greedy(logits(i6=9.0, i1=8.0)) == Decision(6, is_recorded=False)
    noise = Scripted({0: 1, 1: 1})
    scores = decision_scores(logits(i6=9.0, i1=8.0), [], DecisionSampling(), IDS)
    assert torch.isneginf(scores[6])
    assert decide(logits(i6=9.0, i1=8.0), [], DecisionSampling(), IDS, noise) == Decision(1, is_recorded=True)


def test_the_first_draw_sees_the_bare_model_at_temperature_one():
    row, noise = logits(i1=2.0, i7=3.0, i5=1.0), Recording()
    decide(row, [1, 5], DecisionSampling(temperature=0.1, repetition_penalty=3.0), IDS, noise)
    torch.testing.assert_close(noise.seen[0], row.softmax(-1))


def test_forbidden_ids_cannot_be_drawn_in_the_second_stage():
    assert greedy(logits(i7=9.0, i2=1.0)) == Decision(2, is_recorded=True)


def test_the_penalty_divides_negative_scores_too_and_so_makes_them_likelier():
    sampling = DecisionSampling(repetition_penalty=2.0, length_penalty=1.0)
    scores = decision_scores(logits(i0=3.0, i1=-3.0), [0, 1, 1, 1], sampling, IDS)
    assert scores[:2].tolist() == [1.5, -1.5]


def test_the_penalty_sees_the_last_512_recorded_ids_only():
    sampling = DecisionSampling(repetition_penalty=2.0)
    scores = decision_scores(logits(i0=3.0, i1=3.0), [0, 1] + [2] * 511, sampling, IDS)
    assert scores[:2].tolist() == [3.0, 1.5]


def test_the_length_penalty_keeps_turn_eos_down_whatever_its_sign():
    sampling = DecisionSampling(repetition_penalty=1.0, length_penalty=2.0)
    assert decision_scores(logits(i5=3.0), [], sampling, IDS)[5] == 1.5
    assert decision_scores(logits(i5=-3.0), [], sampling, IDS)[5] == -6.0


def test_the_turn_end_gets_the_repetition_penalty_and_then_the_length_penalty():
    sampling = DecisionSampling(repetition_penalty=2.0, length_penalty=2.0)
    assert decision_scores(logits(i5=-3.0), [5], sampling, IDS)[5] == -3.0


def test_the_listen_scale_multiplies_the_tokenizer_end_whatever_its_sign():
    sampling = DecisionSampling(listen_prob_scale=0.5, **PLAIN)
    assert decision_scores(logits(i4=3.0), [], sampling, IDS)[4] == 1.5
    assert decision_scores(logits(i4=-3.0), [], sampling, IDS)[4] == -1.5


def test_a_tokenizer_end_of_high_rank_is_returned_without_a_second_draw_or_a_record():
    noise = Scripted({})
    sampling = DecisionSampling(listen_top_k=2, **PLAIN)
    assert decide(logits(i0=5.0, i4=4.0), [], sampling, IDS, noise) == Decision(4, is_recorded=False)
    assert noise.num_draws == 1


def test_fewer_than_listen_top_k_scores_must_exceed_the_tokenizer_end():
    assert greedy(logits(i0=5.0, i1=4.5, i4=4.0), listen_top_k=3, **PLAIN).token_id == 4
    assert greedy(logits(i0=5.0, i1=4.5, i4=4.0), listen_top_k=2, **PLAIN).token_id == 0


def test_the_rank_is_taken_after_masks_penalties_and_scale():
    # The forbidden id does not count; doubled, the tokenizer end passes the word.
    row = logits(i7=9.0, i0=5.0, i4=3.0)
    assert greedy(row, listen_top_k=1, listen_prob_scale=2.0, **PLAIN) == Decision(4, is_recorded=False)
    assert greedy(row, listen_top_k=1, **PLAIN) == Decision(0, is_recorded=True)


def test_by_default_the_listen_parameters_change_nothing():
    row = logits(i4=3.0, i0=2.0)
    assert greedy(row) == Decision(4, is_recorded=True)


def test_the_second_draw_applies_temperature_then_top_k_then_the_nucleus():
    row, noise = logits(i0=3.0, i1=2.0, i2=1.9, i3=1.0), Recording()
    decide(row, [], DecisionSampling(temperature=0.5, top_k=3, top_p=0.9, **PLAIN), IDS, noise)
    expected = torch.tensor([6.0, 4.0, 3.8]).softmax(-1)
    assert torch.nonzero(noise.seen[1])[:, 0].tolist() == [0, 1]
    torch.testing.assert_close(noise.seen[1][:2], expected[:2] / expected[:2].sum())


def test_greedy_takes_no_draw_and_sampling_two():
    greedy(logits(i0=1.0))
    noise = Scripted({})
    decide(logits(i0=1.0), [], DecisionSampling(), IDS, noise)
    assert noise.num_draws == 2


def test_the_logits_are_left_alone():
    row = logits(i0=1.0, i5=2.0)
    before = row.clone()
    greedy(row, [0, 5], listen_prob_scale=0.5)
    assert torch.equal(row, before)


@pytest.mark.parametrize("wrong", [{"temperature": 0.0}, {"listen_top_k": 0}, {"top_p": -0.1}, {"penalty_window": 0}])
def test_a_parameter_out_of_range_is_refused_by_name(wrong):
    with pytest.raises(SamplingError, match=next(iter(wrong))):
        DecisionSampling(**wrong)
