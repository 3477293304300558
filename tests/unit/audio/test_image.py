import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from antiphon.audio.image import MAX_IMAGE_PIXELS, load_image, prepare_image
from antiphon.core.errors import MediaError


def encoded(picture: Image.Image, form: str, **options: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, format=form, **options)
    return file.getvalue()


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF"])
def test_common_formats_become_rgb(form: str) -> None:
    picture = load_image(encoded(Image.new("RGB", (8, 6), (200, 30, 30)), form))
    assert (picture.mode, picture.size) == ("RGB", (8, 6))
    assert abs(picture.getpixel((3, 3))[0] - 200) < 8


def test_a_transparent_palette_lies_on_white() -> None:
    picture = Image.new("P", (4, 4), 0)
    picture.putpalette([0, 0, 0, 255, 0, 0])
    picture.putpixel((1, 1), 1)
    decoded = load_image(encoded(picture, "PNG", transparency=0))
    assert decoded.getpixel((0, 0)) == (255, 255, 255)
    assert decoded.getpixel((1, 1)) == (255, 0, 0)


def test_16_bit_grey_is_scaled_not_clipped() -> None:
    grey = Image.fromarray(np.full((4, 4), 32_768, np.uint16))
    assert load_image(encoded(grey, "PNG")).getpixel((0, 0)) == (128, 128, 128)


def test_cmyk_becomes_rgb() -> None:
    assert load_image(encoded(Image.new("CMYK", (4, 4)), "JPEG")).mode == "RGB"


def test_exif_rotation_is_applied() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    assert load_image(encoded(Image.new("RGB", (10, 4)), "JPEG", exif=exif)).size == (4, 10)


def test_an_animation_gives_its_first_frame() -> None:
    frames = [Image.new("RGB", (4, 4), colour) for colour in ((255, 0, 0), (0, 255, 0))]
    decoded = load_image(encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]))
    assert decoded.getpixel((0, 0)) == (255, 0, 0)


def test_floats_are_refused() -> None:
    with pytest.raises(MediaError, match="32-bit floats"):
        prepare_image(Image.new("F", (4, 4)), "image")


def test_what_is_no_image_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.png"
    path.write_text("hello")
    with pytest.raises(MediaError, match=r"text.png: is not an image"):
        load_image(path)


@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_a_truncated_image_is_refused(form: str) -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8))
    content = encoded(noise, form)
    with pytest.raises(MediaError, match="damaged or truncated"):
        load_image(content[: len(content) // 2])


def test_a_bomb_is_refused_before_it_is_decoded() -> None:
    content = encoded(Image.new("1", (9_500, 9_500)), "PNG")
    with pytest.raises(MediaError, match=f"at most {MAX_IMAGE_PIXELS // 10**6} million pixels"):
        load_image(content)
    huge = encoded(Image.new("1", (14_000, 14_000)), "PNG")
    with pytest.raises(MediaError, match="too many pixels"):
        load_image(huge)


@pytest.mark.parametrize("size", [(1, 1), (1, 2000), (20, 10_000)])
def test_odd_shapes_are_legal(size: tuple[int, int]) -> None:
    assert load_image(encoded(Image.new("L", size), "PNG")).size == size
