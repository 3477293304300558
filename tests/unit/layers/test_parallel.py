import pytest
import torch

from antiphon.core.errors import ConfigError
from antiphon.layers.parallel import (
    ALONE,
    ParallelGroup,
    require_divisible,
    shard_columns,
    shard_rows,
    shard_vocabulary,
)

GROUP = [ParallelGroup(rank=rank, size=2) for rank in range(2)]


def test_the_ranks_columns_together_are_the_whole_product() -> None:
    weight, x = torch.randn(6, 4), torch.randn(3, 4)
    parts = [x @ shard_columns(weight, group).T for group in GROUP]
    torch.testing.assert_close(torch.cat(parts, -1), x @ weight.T)


def test_the_ranks_rows_sum_up_to_the_whole_product() -> None:
    weight, x = torch.randn(6, 4), torch.randn(3, 4)
    parts = [x[:, 2 * group.rank : 2 * group.rank + 2] @ shard_rows(weight, group).T for group in GROUP]
    torch.testing.assert_close(parts[0] + parts[1], x @ weight.T)


def test_an_odd_vocabulary_is_filled_up_with_zeros() -> None:
    weight = torch.randn(5, 4)
    parts = torch.cat([shard_vocabulary(weight, group) for group in GROUP])
    assert torch.equal(parts[:5], weight)
    assert torch.equal(parts[5:], torch.zeros(1, 4))


def test_alone_nothing_is_cut_or_sent() -> None:
    weight = torch.randn(5, 4)
    assert shard_vocabulary(weight, ALONE) is weight
    assert torch.equal(shard_columns(weight, ALONE), weight)
    for operation in (ALONE.sum, ALONE.join, ALONE.agree):
        assert operation(weight) is weight


def test_sizes_that_do_not_divide_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="tensor parallel 2: num_kv_heads 3"):
        require_divisible("num_kv_heads", 3, GROUP[0])
