import pytest
import torch

from antiphon.core.errors import SamplingError
from antiphon.engine.noise import Argmax, InverseCdf, Scripted, SeededNoise

PROBS = torch.tensor([0.1, 0.2, 0.6, 0.1])


def test_argmax_takes_the_first_of_equals():
    assert Argmax().draw(torch.tensor([0.1, 0.4, 0.4, 0.1])) == 1


def test_a_script_replaces_single_draws_counted_over_its_whole_life():
    noise = Scripted({1: 0, 3: 3})
    assert [noise.draw(PROBS) for _ in range(5)] == [2, 0, 2, 3, 2]
    assert noise.num_draws == 5


@pytest.mark.parametrize(("uniform", "index"), [(0.0, 0), (0.0999, 0), (0.25, 1), (0.35, 2), (0.95, 3)])
def test_a_uniform_number_picks_the_first_id_whose_cumulative_probability_lies_above_it(uniform, index):
    assert InverseCdf([uniform]).draw(PROBS) == index


def test_a_uniform_number_on_a_step_of_the_sum_belongs_to_the_next_id():
    assert InverseCdf([0.25]).draw(torch.tensor([0.25, 0.25, 0.5])) == 1


def test_uniform_numbers_scale_with_the_total_and_never_leave_the_vocabulary():
    assert InverseCdf([0.5]).draw(torch.tensor([2.0, 1.0, 5.0])) == 2
    assert InverseCdf([1.0]).draw(torch.tensor([0.5, 0.5, 0.0])) == 2


def test_an_id_of_probability_zero_is_never_picked():
    noise = InverseCdf([0.0, 0.5])
    assert [noise.draw(torch.tensor([0.0, 1.0, 0.0])) for _ in range(2)] == [1, 1]


def test_used_up_uniform_numbers_are_an_error():
    noise = InverseCdf([0.3])
    noise.draw(PROBS)
    with pytest.raises(SamplingError, match="used up"):
        noise.draw(PROBS)


def test_a_seed_draws_what_torch_draws_from_its_global_generator():
    torch.manual_seed(11)
    expected = [int(torch.multinomial(PROBS[None], 1)) for _ in range(8)]
    noise = SeededNoise(11)
    assert [noise.draw(PROBS) for _ in range(8)] == expected


def test_two_seeded_sources_do_not_disturb_each_other():
    alone, first, other = SeededNoise(1), SeededNoise(1), SeededNoise(2)
    mixed = []
    for _ in range(6):
        mixed.append(first.draw(PROBS))
        other.draw(PROBS)
    assert mixed == [alone.draw(PROBS) for _ in range(6)]
