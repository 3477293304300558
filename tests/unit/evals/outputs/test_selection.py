import pytest

from antiphon.bench.bench_request import BenchRequest
from antiphon.core.errors import ConfigError
from antiphon.evals.items import EvalItem, Output, Truth
from antiphon.evals.outputs.selection import outputs_of


def never() -> BenchRequest:
    raise AssertionError("nothing is asked")


def test_outputs_are_those_of_the_items_held_against_what_is_true_now() -> None:
    old = [Output(truth=Truth(item_id=name, gold="A"), text=name) for name in ("a", "b", "c")]
    items = [EvalItem(Truth(item_id=name, gold="B"), never) for name in ("c", "a")]
    found = outputs_of(items, old)
    assert [(output.text, output.truth.gold) for output in found] == [("c", "B"), ("a", "B")]


def test_an_item_without_an_output_is_named() -> None:
    with pytest.raises(ConfigError, match="1 items have no output, as 'x'"):
        outputs_of([EvalItem(Truth(item_id="x"), never)], [])
