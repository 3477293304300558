import re

import pytest
import torch
from torch import nn

from antiphon.models.placing import Filler, build_empty, finish

CPU = torch.device("cpu")


def test_an_empty_module_has_shapes_but_no_memory() -> None:
    module = build_empty(lambda: nn.Linear(1 << 20, 1 << 20))
    assert module.weight.is_meta
    assert module.weight.shape == (1 << 20, 1 << 20)


def test_a_tensor_becomes_the_parameter_itself() -> None:
    module = build_empty(lambda: nn.Linear(2, 3, bias=False))
    value = torch.rand(3, 2)
    Filler(module, device=CPU, dtype=torch.float32).put("weight", value)
    assert module.weight.data_ptr() == value.data_ptr()
    assert not module.weight.requires_grad


def test_a_pair_is_folded_whichever_half_comes_first() -> None:
    magnitude, direction = torch.tensor([[2.0], [1.0]]), torch.tensor([[3.0, 4.0], [0.0, 5.0]])
    names = {f"x.0.parametrizations.weight.original{half}": value for half, value in enumerate((magnitude, direction))}
    for order in (list(names), list(names)[::-1]):
        module = build_empty(lambda: nn.Sequential(nn.Linear(2, 2, bias=False)))
        filler = Filler(module, device=CPU, dtype=torch.float32, prefix="x.", normed=re.compile(r"0"))
        assert set(filler.expected) == set(names)
        for name in order:
            filler.put(name, names[name])
        torch.testing.assert_close(module[0].weight.data, torch.tensor([[1.2, 1.6], [0.0, 1.0]]))


def test_values_are_cast_to_the_wanted_type() -> None:
    module = build_empty(lambda: nn.Linear(2, 1, bias=False))
    Filler(module, device=CPU, dtype=torch.bfloat16).put("weight", torch.ones(1, 2))
    assert finish(module, CPU).weight.dtype == torch.bfloat16


def test_a_module_with_something_left_empty_is_not_finished() -> None:
    with pytest.raises(AssertionError, match="weight has no memory"):
        finish(build_empty(lambda: nn.Sequential(nn.Linear(2, 1))), CPU)
