"""Slices, sizes and strips of pictures, ordinary and absurd."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from antiphon.config.checkpoint import ImageConfig
from antiphon.core.errors import MediaError
from antiphon.prompt.images import choose_grid, fit_size, prepare_image, refined_size


def picture(width: int, height: int) -> Image.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.mark.parametrize(
    ("size", "max_slices", "grid", "patch_grids"),
    [
        ((1920, 1080), 1, None, [(24, 43)]),
        ((1920, 1080), 9, (4, 2), [(24, 43)] + [(34, 30)] * 8),
        ((960, 540), 2, (2, 1), [(24, 43)] + [(34, 30)] * 2),
        ((1280, 720), 2, (2, 1), [(24, 43)] + [(34, 30)] * 2),
        ((448, 448), 9, None, [(32, 32)]),
        ((640, 480), 1, None, [(28, 37)]),
        ((640, 480), 9, (2, 1), [(28, 37)] + [(39, 26)] * 2),
    ],
)
def test_known_pictures_are_sliced_as_the_reference_does(
    image_config: ImageConfig,
    size: tuple[int, int],
    max_slices: int,
    grid: tuple[int, int] | None,
    patch_grids: list[tuple[int, int]],
) -> None:
    prepared = prepare_image(picture(*size), image_config, max_slices)
    assert prepared.grid == grid
    assert list(prepared.patch_grids) == patch_grids
    assert [strip.shape for strip in prepared.strips] == [(3, 14, 14 * rows * columns) for rows, columns in patch_grids]


def test_the_first_of_equally_good_grids_wins() -> None:
    assert choose_grid((1344, 1344), 2, 448) == (1, 2)


def test_the_refined_size_is_whole_cells_of_whole_patches() -> None:
    assert refined_size((449, 448), (2, 1), 448, 14) == (644, 630)


def test_a_strip_holds_normalised_patches_row_by_row(image_config: ImageConfig) -> None:
    # Two by three patches that need no resizing: 42x28 is not scaled up if slicing is on and a grid is forced off.
    config = replace(image_config, scale_resolution=28, slice_mode=False)
    image = picture(28, 28)
    (strip,) = prepare_image(image, config).strips
    pixels = np.asarray(image)
    for place, (row, column) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
        patch = pixels[row * 14 : row * 14 + 14, column * 14 : column * 14 + 14].transpose(2, 0, 1)
        np.testing.assert_allclose(strip[:, :, place * 14 : place * 14 + 14], patch / 127.5 - 1, atol=1e-6)
    assert strip.dtype == np.float32


def test_without_slice_mode_nothing_is_sliced(image_config: ImageConfig) -> None:
    assert prepare_image(picture(1920, 1080), replace(image_config, slice_mode=False)).grid is None


def test_the_checkpoint_says_how_many_slices_if_nobody_else_does(image_config: ImageConfig) -> None:
    assert len(prepare_image(picture(1344, 1344), image_config).strips) == 10
    assert len(prepare_image(picture(1344, 1344), replace(image_config, max_slices=4)).strips) == 5


@pytest.mark.parametrize("size", [(1, 1), (7, 3), (5, 1), (20, 10_000), (10_000, 20), (1, 60_000), (60_000, 1)])
def test_absurd_pictures_become_ordinary_input(image_config: ImageConfig, size: tuple[int, int]) -> None:
    prepared = prepare_image(Image.new("RGB", size, "red"), image_config)
    for strip, (rows, columns) in zip(prepared.strips, prepared.patch_grids, strict=True):
        assert strip.shape == (3, 14, 14 * rows * columns)
        assert np.isfinite(strip).all()


@settings(max_examples=200)
@given(st.integers(1, 10**7), st.integers(1, 10**7), st.integers(1, 9))
def test_no_geometry_gives_an_empty_or_unbounded_picture(width: int, height: int, max_slices: int) -> None:
    grid = choose_grid((width, height), max_slices, 448)
    sizes = [fit_size((width, height), 448, 14, upscale=grid is None)]
    if grid is not None:
        assert grid[0] * grid[1] <= max_slices
        refined = refined_size((width, height), grid, 448, 14)
        sizes.append((refined[0] // grid[0], refined[1] // grid[1]))
    for fitted in sizes:
        assert fitted[0] % 14 == fitted[1] % 14 == 0
        assert 1 <= fitted[0] // 14 * (fitted[1] // 14) <= 4096


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK"])
def test_other_colour_modes_become_rgb(image_config: ImageConfig, mode: str) -> None:
    assert prepare_image(picture(30, 30).convert(mode), image_config).strips[0].shape[0] == 3


def test_a_picture_without_pixels_or_slices_below_one_are_refused(image_config: ImageConfig) -> None:
    with pytest.raises(MediaError, match="no pixels"):
        prepare_image(Image.new("RGB", (0, 5)), image_config)
    with pytest.raises(MediaError, match="max_slices is 0"):
        prepare_image(picture(5, 5), image_config, 0)
