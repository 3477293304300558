import pytest

from antiphon.core.errors import SamplingError
from antiphon.engine.sampling_range import require_range


@pytest.mark.parametrize("value", [0.0, 0.5, 1.0])
def test_bounds_belong_to_the_range(value):
    require_range("top_p", value, 0.0, 1.0)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf")])
def test_what_lies_outside_is_refused_with_the_bounds(value):
    with pytest.raises(SamplingError, match=r"top_p is .*at least 0, at most 1"):
        require_range("top_p", value, 0.0, 1.0)


def test_an_open_lower_bound_is_outside_and_infinity_always_is():
    with pytest.raises(SamplingError, match="above 0"):
        require_range("temperature", 0.0, 0.0, above=True)
    with pytest.raises(SamplingError, match="temperature"):
        require_range("temperature", float("inf"), 0.0)
