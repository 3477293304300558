"""Random prompts."""

import numpy as np
import pytest

from antiphon.bench.datasets.random_text import RandomOptions, make_random
from antiphon.core.errors import ConfigError


def make(count: int = 3, seed: int = 0, **options: float) -> list[str]:
    requests = make_random(count, RandomOptions(**options), np.random.default_rng(seed))  # type: ignore[arg-type]
    return [str(request.messages[0]["content"]) for request in requests]


def test_prompts_have_the_length_asked_for_and_repeat_with_the_seed() -> None:
    assert [len(text.split()) for text in make(input_len_tokens=20)] == [20] * 3
    assert make(seed=1) == make(seed=1) != make(seed=2)


def test_a_prefix_is_common_to_all() -> None:
    texts = make(input_len_tokens=5, prefix_len_tokens=4)
    assert len({tuple(text.split()[:4]) for text in texts}) == 1
    assert len(set(texts)) == 3


def test_lengths_spread_by_the_ratio() -> None:
    lengths = [len(text.split()) for text in make(200, input_len_tokens=100, range_ratio=0.5)]
    assert min(lengths) >= 50
    assert max(lengths) <= 150
    assert len(set(lengths)) > 20


@pytest.mark.parametrize("options", [{"input_len_tokens": 0}, {"output_len_tokens": 0}, {"range_ratio": 1.0}])
def test_impossible_lengths_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="--random"):
        make(**options)
