"""Positions and padding of the resampler."""

import pytest
import torch

from antiphon.models.thinker.resampler import Resampler, sincos_table


def resampler() -> Resampler:
    torch.manual_seed(2)
    model = Resampler(num_queries=5, hidden_size=256, vision_size=12)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def test_the_table_holds_sines_then_cosines() -> None:
    table = sincos_table(3, 8)
    angles = torch.tensor([2 * 10_000 ** (-j / 4) for j in range(4)])
    torch.testing.assert_close(table[2], torch.cat((angles.sin(), angles.cos())))


def test_the_first_half_of_the_channels_encodes_the_column() -> None:
    model = resampler()
    positions = model._positions((2, 3), torch.zeros(1, 256))
    table = sincos_table(3, 128)
    for index, (row, column) in enumerate([(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]):
        torch.testing.assert_close(positions[index], torch.cat((table[column], table[row])))


def test_a_grid_beyond_the_table_extends_it() -> None:
    model = resampler()
    small = model._positions((1, 2), torch.zeros(1, 256))
    large = model._positions((1, 75), torch.zeros(1, 256))
    torch.testing.assert_close(large[:2], small)
    assert len(large) == 75


def test_positions_take_the_dtype_of_the_features() -> None:
    assert resampler()._positions((2, 2), torch.zeros(1, 256, dtype=torch.bfloat16)).dtype is torch.bfloat16


@pytest.mark.parametrize("grids", [[(1, 1), (2, 3)], [(4, 1), (1, 3)]])
def test_padding_changes_nothing(grids: list[tuple[int, int]]) -> None:
    model, lengths = resampler(), [rows * columns for rows, columns in grids]
    features = torch.randn(2, max(lengths), 12)
    valid = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    together = model(features, valid, grids)
    for index, length in enumerate(lengths):
        alone = model(features[index : index + 1, :length], None, grids[index : index + 1])
        torch.testing.assert_close(together[index], alone[0])
