"""The page of a credit map, pictures included, no larger than it may be."""

from __future__ import annotations

import base64
import io

from PIL import Image

from mmcredit.reporting.colours import LEVELS, level
from mmcredit.reporting.credit_map import CreditMap
from mmcredit.reporting.pages import render
from mmcredit.types import UserError

SIDES = (768, 512, 384, 256, 160)  # pixels of a picture's longer side, tried until the page is small enough


def data_uri(picture: Image.Image, side: int, quality: int = 85) -> str:
    """A JPEG inside an address, no larger than ``side`` pixels."""
    shrunk = picture.convert("RGB")
    shrunk.thumbnail((side, side))
    file = io.BytesIO()
    shrunk.save(file, "JPEG", quality=quality)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()


def credit_page(shown: CreditMap, max_mb: float = 10.0) -> str:
    """The page of a credit map, with pictures as large as its size allows.

    Raises:
        UserError: it is larger than ``max_mb`` (10^6 bytes) even with small pictures.
    """
    text = 0  # bytes of everything but the pictures
    for side in SIDES:
        pictures = [[data_uri(picture, side) for picture in panel.pictures] for panel in shown.panels]
        inside = sum(len(uri) for uris in pictures for uri in uris)
        if side == SIDES[0] or text + inside <= max_mb * 1e6:
            values = {"shown": shown, "pictures": pictures, "levels": LEVELS, "level": _level}
            page = render("credit_map.html.jinja", "credit_map.css.jinja", **values)
            if (size := len(page.encode())) <= max_mb * 1e6:
                return page
            text = size - inside
    raise UserError(
        f"a credit map of {len(shown.panels)} prompts is {(text + inside) / 1e6:.2f} MB, above max_mb={max_mb:g}: "
        "show fewer samples, responses or methods, or raise max_mb"
    )


def _level(value: float, scale: float) -> str:
    """Class of a shade in the style sheet."""
    shade = level(value, scale)
    return f"{'p' if shade > 0 else 'n'}{abs(shade)}" if shade else "z"
