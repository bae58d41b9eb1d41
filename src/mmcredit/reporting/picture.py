"""A prompt's panel of a credit map as one picture, for TensorBoard: the page's content without what needs a pointer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib
from PIL import Image, ImageDraw, ImageFont

from mmcredit.reporting.colours import LEVELS, Colour, colour, ink, level
from mmcredit.reporting.credit_map import Column, Panel, Token
from mmcredit.reporting.visible_text import visible

WIDTH, SIDE, MARGIN, LINE = 1100, 300, 12, 22  # pixels: whole picture, the question's picture, margin, line of text
BOXES: dict[str, Colour] = {"evidence": (0, 114, 178), "reference": (179, 89, 0), "routed": (142, 59, 118)}
MAX_LINES = 40  # of tokens of a response
CLAIMS: dict[str, Colour] = {"routed": (0, 0, 0), "supported": (0, 0, 0), "contradicted": (200, 0, 0)}


def _font(size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(
        str(Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"), size, layout_engine=ImageFont.Layout.BASIC
    )


TEXT, SMALL = _font(14), _font(12)


def panel_picture(chains: Sequence[str], panel: Panel) -> Image.Image:
    """RGB. Left the question's picture with its boxes, right the responses; claims are underlined, false ones in red.

    Boxes: evidence solid blue, reference orange, routed purple, named below the picture.
    """
    left = SIDE + 2 * MARGIN if panel.pictures else MARGIN
    texts = list(_texts(chains, panel, WIDTH - left - MARGIN))
    height = (
        MARGIN * 3 + LINE + max(LINE * (len(texts) + 1), SIDE + LINE * (1 + len(panel.boxes)) if left > SIDE else 0)
    )
    canvas = Image.new("RGB", (WIDTH, height), "white")
    draw = ImageDraw.Draw(canvas)
    draw.text((MARGIN, MARGIN), _cut(f"{panel.question}   gold {panel.gold}   {panel.id}"), "black", TEXT)
    top = 2 * MARGIN + LINE
    if panel.pictures:
        _paste(canvas, draw, panel, top)
    for i, line in enumerate(texts):
        _line(draw, line, left, top + i * LINE, panel.scale)
    _legend(draw, left, top + len(texts) * LINE, panel.scale)
    return canvas


Line = str | list[tuple[float, Token]]  # a heading, or tokens with their place, pixels from the left


def _texts(chains: Sequence[str], panel: Panel, width: int) -> Iterator[Line]:
    for number, row in enumerate(panel.rows, 1):
        yield f"response {number}: {'right' if row.correct else 'wrong'}"
        for name, column in zip(chains, row.columns, strict=True):
            if len(chains) > 1:
                yield name
            yield from _wrapped(column, width)


def _wrapped(column: Column, width: int) -> list[Line]:
    lines: list[list[tuple[float, Token]]] = [[]]
    x = 0.0
    for token in column.tokens:
        size = TEXT.getlength(_one_line(token.text))
        if lines[-1] and x + size > width:
            lines.append([])
            x = 0.0
        lines[-1].append((x, token))
        x += size
    cut: list[Line] = [f"... {len(lines) - MAX_LINES} more lines"] if len(lines) > MAX_LINES else []
    return [*lines[:MAX_LINES], *cut]


def _line(draw: ImageDraw.ImageDraw, line: Line, left: int, y: int, scale: float) -> None:
    if isinstance(line, str):
        draw.text((left, y + 4), _cut(line), (80, 80, 80), SMALL)
        return
    for place, token in line:
        text, x = _one_line(token.text), left + place
        background = colour(level(token.credit, scale))
        end = x + TEXT.getlength(text)
        draw.rectangle((x, y + 1, end - 1, y + LINE - 3), background)
        draw.text((x, y + 2), text, ink(background), TEXT)
        if token.claim:
            draw.line((x, y + LINE - 3, end - 1, y + LINE - 3), CLAIMS[token.claim], 2)


def _legend(draw: ImageDraw.ImageDraw, x: int, y: int, scale: float) -> None:
    for i, shade in enumerate(range(-LEVELS, LEVELS + 1)):
        draw.rectangle((x + 14 * i, y + 4, x + 14 * i + 13, y + 16), colour(shade))
    draw.text((x + 14 * (2 * LEVELS + 2), y + 3), f"credit {-scale:+.2f} .. {scale:+.2f}", (80, 80, 80), SMALL)


def _paste(canvas: Image.Image, draw: ImageDraw.ImageDraw, panel: Panel, top: int) -> None:
    picture = panel.pictures[0].convert("RGB")
    ratio = SIDE / max(picture.size)
    canvas.paste(picture.resize([max(round(side * ratio), 1) for side in picture.size]), (MARGIN, top))
    for i, mapped in enumerate(panel.boxes):
        x, y = MARGIN + mapped.box.x * ratio, top + mapped.box.y * ratio
        corners = (x, y, x + max(mapped.box.w * ratio, 1), y + max(mapped.box.h * ratio, 1))
        draw.rectangle(corners, outline="white", width=4)
        draw.rectangle(corners, outline=BOXES[mapped.kind], width=2)
        draw.text((MARGIN, top + SIDE + 6 + i * LINE), _cut(mapped.label, 40), BOXES[mapped.kind], SMALL)


def _one_line(text: str) -> str:
    return text.replace("\n", "").replace("\t", "")


def _cut(text: str, longest: int = 130) -> str:
    text = _one_line(visible(text))
    return text if len(text) <= longest else text[: longest - 1] + "…"
