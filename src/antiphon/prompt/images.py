"""Pictures to pixel strips: the choice of slices, the sizes they are brought to, and the layout the encoder reads.

Source: model specification 2.3. Sizes are (width, height), grids (columns, rows), patch grids (rows, columns).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log, sqrt

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from antiphon.config.checkpoint import ImageConfig
from antiphon.core.errors import MediaError

Size = tuple[int, int]
Strip = NDArray[np.float32]

# The area of a picture is bounded but its sides are not: the short side never goes below one patch, so a picture one
# pixel wide could become 100,000 patches. At most this many times the usual number are made of such a picture.
_MAX_STRETCH = 4


@dataclass(frozen=True)
class PreparedImage:
    """One picture as the encoder takes it: the whole picture, then its slices row by row."""

    grid: Size | None
    strips: tuple[Strip, ...]  # each [3, P, P·L], L = rows·columns patches, left to right and row by row
    patch_grids: tuple[tuple[int, int], ...]


def prepare_image(image: Image.Image, config: ImageConfig, max_slices: int | None = None) -> PreparedImage:
    """Slice, resize and normalise *image*.

    Args:
        max_slices: most slices beside the whole picture (1: none); None means the checkpoint's number.

    Raises:
        MediaError: an image without pixels, or *max_slices* below 1.
    """
    limit = config.max_slices if max_slices is None else max_slices
    if limit < 1:
        raise MediaError(f"max_slices is {limit}; the smallest number is 1, which means no slices")
    if min(image.size) < 1:
        raise MediaError(f"an image has no pixels ({image.size[0]}x{image.size[1]})")
    picture = image if image.mode == "RGB" else image.convert("RGB")
    grid = choose_grid(picture.size, limit, config.scale_resolution) if config.slice_mode else None
    whole = fit_size(picture.size, config.scale_resolution, config.patch_size, upscale=grid is None)
    views = [picture.resize(whole, Image.Resampling.BICUBIC)]
    if grid is not None:
        refined = refined_size(picture.size, grid, config.scale_resolution, config.patch_size)
        views += _cut(picture.resize(refined, Image.Resampling.BICUBIC), grid)
    strips = tuple(_strip(view, config) for view in views)
    patch_grids = tuple((view.height // config.patch_size, view.width // config.patch_size) for view in views)
    return PreparedImage(grid, strips, patch_grids)


def choose_grid(size: Size, max_slices: int, resolution: int) -> Size | None:
    """Columns and rows of the slices: as many as the area fills, shaped most like the picture. None: no slices."""
    width, height = size
    wanted = min(ceil(width * height / (resolution * resolution)), max_slices)
    if wanted <= 1:
        return None
    target = log(width / height)
    counts = [count for count in (wanted - 1, wanted, wanted + 1) if 1 < count <= max_slices]
    grids = [(columns, count // columns) for count in counts for columns in range(1, count + 1) if count % columns == 0]
    # The first of equally good grids wins.
    return min(grids, key=lambda grid: abs(target - log(grid[0] / grid[1])))


def fit_size(size: tuple[float, float], resolution: int, patch_size: int, *, upscale: bool) -> Size:
    """The size nearest to *size* in shape, of about *resolution*² pixels and whole patches.

    A picture of fewer pixels keeps its size, up to whole patches, unless *upscale*.
    """
    width, height = size
    if width * height > resolution * resolution or upscale:
        ratio = width / height
        height = int(resolution / sqrt(ratio))
        width = int(height * ratio)
    longest = _MAX_STRETCH * resolution * resolution // patch_size
    return (_whole_patches(min(width, longest), patch_size), _whole_patches(min(height, longest), patch_size))


def refined_size(size: Size, grid: Size, resolution: int, patch_size: int) -> Size:
    """The size from which the slices are cut: each cell is itself a picture of about *resolution*² pixels."""
    columns, rows = grid
    width, height = (max(cells, round(side / cells) * cells) for side, cells in zip(size, grid, strict=True))
    cell = fit_size((width / columns, height / rows), resolution, patch_size, upscale=True)
    return (cell[0] * columns, cell[1] * rows)


def _whole_patches(length: float, patch_size: int) -> int:
    return max(patch_size, round(length / patch_size) * patch_size)  # ties to even, as the reference rounds


def _cut(image: Image.Image, grid: Size) -> Sequence[Image.Image]:
    columns, rows = grid
    width, height = image.width // columns, image.height // rows
    corners = [(column * width, row * height) for row in range(rows) for column in range(columns)]
    return [image.crop((left, top, left + width, top + height)) for left, top in corners]


def _strip(image: Image.Image, config: ImageConfig) -> Strip:
    """Normalised float32 [3, P, P·L] of an image whose sides are whole patches."""
    size = config.patch_size
    pixels = np.asarray(image, dtype=np.float32) / np.float32(255)  # [height, width, 3]
    pixels = (pixels - np.asarray(config.mean, dtype=np.float32)) / np.asarray(config.std, dtype=np.float32)
    height, width = pixels.shape[0] // size, pixels.shape[1] // size
    patches = pixels.reshape(height, size, width, size, 3).transpose(4, 1, 0, 2, 3)  # channel, y, row, column, x
    return np.ascontiguousarray(patches).reshape(3, size, size * height * width)
