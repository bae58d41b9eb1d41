"""Self-contained HTML pages: no script, nothing from elsewhere, every text escaped, pictures inside."""

from __future__ import annotations

import base64
import hashlib
import io
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from PIL import Image

from mmcredit.reporting.colours import LEVELS, colour, hexadecimal, ink, level
from mmcredit.reporting.credit_map import CreditMap
from mmcredit.reporting.visible_text import visible
from mmcredit.types import UserError

SIDES = (768, 512, 384, 256, 160)  # pixels of a picture's longer side, tried until the page is small enough
SHADES = [
    f".{name}{abs(shade)}{{background:{hexadecimal(colour(shade))};color:{hexadecimal(ink(colour(shade)))}}}"
    for name, sign in (("p", 1), ("n", -1))
    for shade in range(sign, sign * (LEVELS + 1), sign)
]


def render(template: str, style: str, **values: Any) -> str:
    """A page from a template of this room.

    The page's policy forbids whatever is not in it: scripts altogether, and every style sheet but its own.

    Args:
        template, style: file names; the style sheet is put in the page and named by its hash in the policy.
        values: what the template reads; strings among them are escaped.
    """
    pages = Environment(
        loader=PackageLoader("mmcredit.reporting"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    pages.filters["visible"] = visible
    sheet = pages.get_template(style).render(shades="\n".join(SHADES))
    digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
    policy = f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return pages.get_template(template).render(sheet=Markup(sheet), policy=Markup(policy), **values)


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


def write_text(path: Path, text: str) -> None:
    """Write so that the file is complete or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8", errors="strict")
    partial.replace(path)
