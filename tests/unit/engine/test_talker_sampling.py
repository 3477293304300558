import pytest
import torch

from antiphon.core.errors import SamplingError
from antiphon.engine.noise import Scripted
from antiphon.engine.talker_sampling import TalkerSampling, code_probs, next_code, penalise_codes

NO_CODES = torch.tensor([], dtype=torch.int64)


def test_the_penalty_grows_with_the_count_and_respects_the_sign():
    scores = penalise_codes(torch.tensor([2.0, -2.0, 1.0]), torch.tensor([0, 0, 1]), 1.05)
    assert scores.tolist() == pytest.approx([2 / 1.05**2, -2 * 1.05, 1.0])


def test_the_penalty_sees_the_last_sixteen_codes_only():
    logits = torch.tensor([1.0, 1.0, 1.0])
    sampling = TalkerSampling(top_p=1.0, top_k=0, temperature=1.0, repetition_penalty=2.0)
    probs = code_probs(logits, torch.tensor([0] + [2] * 15 + [1]), sampling, with_filters=False)
    assert probs[0] > probs[1]  # id 0 is the seventeenth from the end
    probs = code_probs(logits, torch.tensor([0] + [2] * 14 + [1]), sampling, with_filters=False)
    assert probs[0] == probs[1]


def test_the_first_code_gets_only_the_temperature():
    logits = torch.linspace(-3, 3, 40)
    probs = code_probs(logits, NO_CODES, TalkerSampling(), with_filters=True)
    torch.testing.assert_close(probs, (logits / 0.8).softmax(-1))


def test_chunks_are_penalised_but_not_filtered():
    logits = torch.linspace(-3, 3, 40)
    history = torch.tensor([39, 39])
    probs = code_probs(logits, history, TalkerSampling(), with_filters=False)
    expected = logits / 0.8
    expected[39] /= 1.05**2
    torch.testing.assert_close(probs, expected.softmax(-1))


def test_top_p_comes_before_top_k():
    # Of all ids the top three hold 0.7 of the mass; of the top two alone the first holds 0.6.
    logits = torch.tensor([0.36, 0.24, 0.1] + [0.03] * 10).log()
    sampling = TalkerSampling(temperature=1.0, top_p=0.59, top_k=2, min_keep=1)
    probs = code_probs(logits, torch.tensor([12]), sampling, with_filters=True)
    assert torch.nonzero(probs)[:, 0].tolist() == [0, 1]


def test_both_filters_keep_three_ids():
    logits = torch.tensor([9.0, 1.0, 2.0, 0.5, 0.1])
    probs = code_probs(logits, torch.tensor([4]), TalkerSampling(top_p=0.1, top_k=1), with_filters=True)
    assert torch.nonzero(probs)[:, 0].tolist() == [0, 1, 2]


def test_the_end_code_is_masked_after_the_filters():
    # The end code takes one of the three places, so two ids are left: no other id moves up.
    logits = torch.tensor([2.0, 1.0, 0.5, 5.0])
    sampling = TalkerSampling(top_p=1.0, top_k=3)
    probs = code_probs(logits, torch.tensor([2]), sampling, with_filters=True, masked_id=3)
    assert torch.nonzero(probs)[:, 0].tolist() == [0, 1]


def test_the_end_code_can_be_masked_at_the_first_code():
    logits = torch.tensor([0.0, 0.0, 9.0])
    probs = code_probs(logits, NO_CODES, TalkerSampling(), with_filters=True, masked_id=2)
    assert probs.tolist() == [0.5, 0.5, 0.0]
    assert logits.tolist() == [0.0, 0.0, 9.0]


def test_a_mask_does_not_stop_a_forced_end():
    logits = torch.tensor([0.0, 0.0, 9.0])
    code = next_code(logits, [], TalkerSampling(), Scripted({0: 2}), with_filters=True, masked_id=2)
    assert code == 2


@pytest.mark.parametrize(
    "wrong",
    [{"temperature": 0.0}, {"temperature": float("nan")}, {"top_p": 1.5}, {"top_k": -1}, {"repetition_penalty": 0.0}],
)
def test_a_parameter_out_of_range_is_refused_by_name(wrong):
    with pytest.raises(SamplingError, match=next(iter(wrong))):
        TalkerSampling(**wrong)
