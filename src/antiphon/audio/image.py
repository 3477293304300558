"""Decodes image inputs to RGB, whatever their mode, within a pixel limit that is checked before decoding."""

import warnings

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from antiphon.audio.source import MediaSource, open_source, source_name
from antiphon.core.errors import MediaError

MAX_IMAGE_PIXELS = 64_000_000  # the model looks at 1.8 million of them at most
# Raster formats only: Pillow would hand EPS to Ghostscript. Its older versions have no AVIF.
IMAGE_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF")


def load_image(source: MediaSource) -> Image.Image:
    """Decode *source* to an RGB picture, upright as its EXIF says; of an animation the first frame.

    Raises:
        MediaError: not an image, truncated, or of more than 64 million pixels.
    """
    name = source_name(source, "image")
    with open_source(source, "image") as file:
        try:
            with warnings.catch_warnings():
                # Pillow warns from 89 million pixels on; the check below refuses earlier and in one line.
                warnings.simplefilter("ignore", Image.DecompressionBombWarning)
                Image.init()
                picture = Image.open(file, formats=[form for form in IMAGE_FORMATS if form in Image.OPEN])
            _check_size(picture, name)
            picture.load()
        except UnidentifiedImageError:
            raise MediaError(f"{name}: is not an image in a supported format ({', '.join(IMAGE_FORMATS)})") from None
        except Image.DecompressionBombError:
            raise MediaError(f"{name}: has too many pixels; at most {MAX_IMAGE_PIXELS} are accepted") from None
        except (OSError, SyntaxError, ValueError, EOFError) as error:  # what Pillow's decoders raise on damaged files
            raise MediaError(f"{name}: the image is damaged or truncated ({_one_line(error)})") from None
    return prepare_image(picture, name)


def prepare_image(picture: Image.Image, name: str) -> Image.Image:
    """Bring any picture to upright RGB: 16-bit grey is scaled, transparency lies on white. Raises MediaError."""
    _check_size(picture, name)
    picture = ImageOps.exif_transpose(picture)
    if picture.mode == "RGB":
        return picture
    if picture.mode == "F":
        raise MediaError(f"{name}: holds 32-bit floats, whose range is not known; convert it to 8 bits")
    if picture.mode == "I" or picture.mode.startswith("I;16"):
        # Pillow's own conversion clips 16-bit grey at 255, which makes it white.
        grey = np.clip(np.asarray(picture).astype(np.int64), 0, 65535) >> 8
        return Image.fromarray(grey.astype(np.uint8)).convert("RGB")
    if picture.has_transparency_data:
        layered = picture.convert("RGBA")
        white = Image.new("RGBA", layered.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, layered).convert("RGB")
    return picture.convert("RGB")


def _check_size(picture: Image.Image, name: str) -> None:
    width, height = picture.size
    if width < 1 or height < 1:
        raise MediaError(f"{name}: has no pixels ({width}×{height})")
    if width * height > MAX_IMAGE_PIXELS:
        raise MediaError(
            f"{name}: is {width}×{height} pixels; at most {MAX_IMAGE_PIXELS // 1_000_000} million pixels are accepted: "
            "scale it down"
        )


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
