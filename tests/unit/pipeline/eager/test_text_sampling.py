import pytest
import torch

from antiphon.core.errors import SamplingError
from antiphon.core.sampling import SamplingParams
from antiphon.engine.noise import SeededNoise
from antiphon.pipeline.eager.text_sampling import TextSampler

LOGITS = torch.tensor([3.0, 2.0, 1.0, -1.0])
END = 0


def sampler(**fields: object) -> TextSampler:
    params = SamplingParams.from_mapping({"temperature": 0, **fields})
    return TextSampler(params, end_ids=[END], vocab_size=4, noise=SeededNoise(1))


def test_greedy_takes_the_best() -> None:
    assert sampler().draw(LOGITS, []) == END


def test_terminators_are_masked_below_the_minimum_length() -> None:
    rule = sampler(min_tokens=2, stop_token_ids=[1])
    assert rule.stop_ids == {0, 1}
    assert [rule.draw(LOGITS, generated) for generated in ([], [2], [2, 2])] == [2, 2, END]


def test_ignored_terminators_are_never_drawn_and_never_stop() -> None:
    rule = sampler(ignore_eos=True, stop_token_ids=[3])
    assert rule.stop_ids == {3}
    assert rule.draw(LOGITS, [2]) == 1


def test_the_repetition_penalty_sees_generated_ids_once() -> None:
    assert sampler(repetition_penalty=2.0).draw(LOGITS, [0, 0]) == 1


def test_the_frequency_penalty_counts_and_the_presence_penalty_does_not() -> None:
    assert sampler(frequency_penalty=0.6).draw(LOGITS, [0]) == 0
    assert sampler(frequency_penalty=0.6).draw(LOGITS, [0, 0]) == 1
    assert sampler(presence_penalty=0.6).draw(LOGITS, [0, 0, 0]) == 0
    assert sampler(presence_penalty=1.5).draw(LOGITS, [0]) == 1


def test_the_same_seed_draws_the_same_ids() -> None:
    def draws(seed: int) -> list[int]:
        params = SamplingParams(temperature=2.0)
        rule = TextSampler(params, end_ids=[END], vocab_size=4, noise=SeededNoise(seed))
        return [rule.draw(LOGITS, []) for _ in range(40)]

    assert draws(5) == draws(5)
    assert draws(5) != draws(6)


def test_a_stop_id_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(SamplingError, match="stop_token_ids holds 4; the vocabulary has the ids 0 to 3"):
        sampler(stop_token_ids=[4])
