"""Position rows, patch layout and padding of the vision encoder."""

import pytest
import torch

from antiphon.config.checkpoint import VisionConfig
from antiphon.core.errors import MediaError
from antiphon.models.thinker.siglip import SiglipEncoder, pad_rows, position_buckets, position_ids


def config(*, drop_last_layer: bool = False) -> VisionConfig:
    return VisionConfig(
        hidden_size=20,
        intermediate_size=24,
        num_layers=2,
        num_heads=4,
        patch_size=3,
        num_channels=3,
        table_side=7,
        layer_norm_eps=1e-6,
        batch_size=4,
        drop_last_layer=drop_last_layer,
    )


def encoder() -> SiglipEncoder:
    torch.manual_seed(1)
    return SiglipEncoder(config()).eval()


def test_position_rows_are_floors_except_where_float32_falls_short() -> None:
    short = {
        n: [i for i, row in enumerate(position_buckets(n, 70)) if row != 70 * i // n]
        for n in range(1, 71)
        if list(position_buckets(n, 70)) != [70 * i // n for i in range(n)]
    }
    assert short == {
        25: [5, 10, 15, 20],
        49: [7, 14, 35, 42],
        50: [5, 10, 15, 20, 30, 40],
        55: [11, 22, 33, 44],
        58: [29],
    }


@pytest.mark.parametrize("side", [70, 16, 27])
def test_position_rows_are_those_of_bucketize_on_a_cpu(side: int) -> None:
    boundaries = torch.arange(1 / side, 1, 1 / side)
    for n in range(1, 130):
        fractions = torch.arange(0, 1 - 1e-6, torch.tensor(1.0) / torch.tensor(n))
        assert position_buckets(n, side) == tuple(torch.bucketize(fractions, boundaries, right=True).tolist())


def test_a_side_longer_than_the_table_shares_its_rows() -> None:
    rows = position_buckets(140, 70)
    assert (rows[0], rows[-1], len(rows)) == (0, 69, 140)


def test_position_ids_run_over_rows_then_columns() -> None:
    assert position_ids((2, 3), 70).tolist() == [0, 23, 46, 2450, 2473, 2496]


def test_patches_are_convolved_in_their_order() -> None:
    embeddings = encoder().embeddings
    strip = torch.randn(3, 3, 3 * 6)
    expected = torch.nn.functional.conv2d(
        strip, embeddings.patch_embedding.weight, embeddings.patch_embedding.bias, stride=3
    )
    positions = embeddings.position_embedding.weight[position_ids((2, 3), 7)]
    torch.testing.assert_close(embeddings(strip, (2, 3)), expected[:, 0].T + positions)


def test_a_strip_that_does_not_hold_its_grid_is_refused() -> None:
    with pytest.raises(MediaError, match="does not hold a grid"):
        encoder().embeddings(torch.zeros(3, 3, 9), (2, 2))


def test_images_of_any_size_do_not_see_their_neighbours_padding() -> None:
    model, grids = encoder(), [(1, 1), (2, 5), (7, 1)]
    strips = [torch.randn(3, 3, 3 * rows * columns) for rows, columns in grids]
    together, valid = model(strips, grids)
    assert valid is not None
    assert valid.sum(1).tolist() == [1, 10, 7]
    for index, (strip, grid) in enumerate(zip(strips, grids, strict=True)):
        alone, no_padding = model([strip], [grid])
        assert no_padding is None
        torch.testing.assert_close(together[index, : alone.shape[1]], alone[0])


def test_rows_of_equal_length_need_no_mask() -> None:
    padded, valid = pad_rows([torch.ones(2, 3), torch.zeros(2, 3)])
    assert padded.shape == (2, 2, 3)
    assert valid is None


def test_a_dropped_last_layer_has_no_weights() -> None:
    assert len(SiglipEncoder(config(drop_last_layer=True)).encoder.layers) == 1
