"""Self-contained HTML pages: no script, nothing from elsewhere, every text escaped, pictures inside."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mmcredit.reporting.colours import LEVELS, colour, hexadecimal, ink
from mmcredit.reporting.visible_text import visible

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
