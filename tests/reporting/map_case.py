"""Credit maps made by hand, with whatever text a model may come up with."""

from __future__ import annotations

import random

from PIL import Image

from mmcredit.reporting.boxes import MappedBox
from mmcredit.reporting.credit_map import Column, CreditMap, Panel, Row, Token
from mmcredit.reporting.visible_text import visible
from mmcredit.types import Box

HOSTILE = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</style><style>*{display:none}",
    "{{ 7 * 7 }}{% for %}&lt;",
    "\u202eevil\u2066\u200b\u2029",
    "\x00\x07\x1b[31m\x7f\x85\ud800",
    "😀🇺🇳é\u0301 שלום 你好",
    "-->]]><!--\n\t`|*_",
)


def noise(size: tuple[int, int]) -> Image.Image:
    return Image.frombytes("RGB", size, random.Random(0).randbytes(3 * size[0] * size[1]))


def column(texts: tuple[str, ...], credit: float = 0.5, claim: str = "") -> Column:
    tokens = [Token(visible(t), credit * (-1) ** i, (("vppo/dependence", 0.25),), claim) for i, t in enumerate(texts)]
    return Column(tuple(tokens), (("reward/total", 1.0), ("ced/margin", float("nan"))))


def panel(texts: tuple[str, ...] = HOSTILE, chains: int = 2, size: tuple[int, int] = (64, 48), **given) -> Panel:
    picture = noise(size) if given.pop("noise", False) else Image.new("RGB", size, "white")
    boxes = (
        MappedBox("evidence", Box(8, 8, 16, 16), "evidence (proposal)"),
        MappedBox("reference", Box(40, 8, 16, 16), "reference 1"),
        MappedBox("routed", Box(8, 28, 16, 16), f"routed: {HOSTILE[0]}"),
    )
    rows = (Row(texts[0], True, True, tuple(column(texts, 1 / (1 + c), "contradicted") for c in range(chains))),)
    fields = {"id": HOSTILE[1], "question": "".join(HOSTILE), "gold": HOSTILE[0], "family": HOSTILE[2]} | given
    return Panel(**fields, pictures=(picture,), boxes=boxes, rows=rows)


def shown(*panels: Panel) -> CreditMap:
    return CreditMap(HOSTILE[0], ("no method", HOSTILE[0], "VPPO")[: len(panels[0].rows[0].columns)], panels)
