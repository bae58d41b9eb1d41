"""Pictures of every color mode as RGB, their content kept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

RANGES = (255, 4095, 65535)  # largest value of 8, 12 and 16 bits
DEEP = ("I", "F")  # and I;16 in its byte orders


def to_rgb(picture: Image.Image) -> Image.Image:
    """The same content in RGB: what is transparent on white, more than 8 bits scaled down (``to_grey``).

    Raises:
        ValueError: a mode that Pillow cannot convert.
    """
    if picture.mode in DEEP or picture.mode.startswith("I;16"):
        picture = to_grey(picture)
    elif picture.mode in ("La", "RGBa"):  # premultiplied
        picture = picture.convert(picture.mode.upper())
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)
    return picture.convert("RGB")


def to_grey(picture: Image.Image) -> Image.Image:
    """Grey of more than 8 bits (I;16, I, F) as L, nothing clipped.

    The smallest of these ranges that holds all values becomes 0..255: 0..1 (F only), 8 bits, 12 bits, 16 bits. Values
    beyond them all are stretched from their smallest to their largest; what is not finite becomes the smallest.
    """
    values = np.asarray(picture).astype(np.float64)
    finite = np.isfinite(values)
    low, high = (float(f(values[finite])) if finite.any() else 0.0 for f in (np.min, np.max))
    ranges = (1, *RANGES) if picture.mode == "F" else RANGES
    top = next((top for top in ranges if low >= 0 and high <= top), None)
    if top is None:
        scaled = (np.where(finite, values, low) - low) / max(high - low, 1e-12) * 255
    else:
        scaled = np.where(finite, values, low) * (255 / top)
    key = picture.info.get("transparency")
    if isinstance(key, int):  # of 16-bit PNG: one value is transparent
        scaled = np.where(values == key, 255.0, scaled)
    return _as_image(scaled)


def _as_image(scaled: NDArray[np.float64]) -> Image.Image:
    return Image.fromarray(scaled.round().astype(np.uint8))
