"""Image files as upright RGB pictures, or the reason why not."""

from __future__ import annotations

from pathlib import Path

from PIL import Image, ImageOps

MAX_ASPECT = 200  # the Qwen-VL processors refuse longer ones


class ImageError(ValueError):
    """Why a file is no usable picture; reads well after the file's name."""


def open_image(path: Path) -> Image.Image:
    """The picture in RGB: upright (EXIF), transparent parts on white, 16-bit grey scaled to 8 bits.

    Raises:
        ImageError: not an image, damaged, too many pixels, or longer than the processors allow.
    """
    try:
        with Image.open(path) as file:
            picture = to_rgb(file)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise ImageError(f"cannot be read ({type(error).__name__})") from None
    if max(picture.size) > MAX_ASPECT * min(picture.size):
        raise ImageError(f"of {picture.width}x{picture.height} pixels is longer than {MAX_ASPECT}:1")
    return picture


def to_rgb(picture: Image.Image) -> Image.Image:
    """The same content in RGB."""
    picture = ImageOps.exif_transpose(picture)
    if picture.mode.startswith("I;16"):
        picture = picture.convert("I").point(lambda grey: grey / 257).convert("L")
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)
    return picture.convert("RGB")
