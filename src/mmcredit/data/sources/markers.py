"""``<image>`` markers in a question: where its pictures stand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from mmcredit.data.gate import BadRow

MARKER = "<image>"
Cell = TypeVar("Cell")
_NUMBERED = re.compile(r"<image[ _](\d{1,3})>")
_LEADING = re.compile(rf"\A(?:\s*{MARKER})+\s*")


def placed(question: str, images: Sequence[Cell]) -> tuple[str, tuple[Cell, ...]]:
    """The question with a marker for each picture or none, and the pictures in their order.

    No marker: the pictures stand before the question, as with markers that all lead. ``<image 2>`` (MMMU) shows
    picture 2 there; pictures without a number come first.

    Raises:
        BadRow: another number of markers than of pictures.
    """
    images = tuple(images)
    if numbers := [int(n) for n in _NUMBERED.findall(question)]:
        if MARKER in question or not all(1 <= n <= len(images) for n in numbers):
            raise BadRow("image_markers", f"the question shows images {numbers}, the row has {len(images)}")
        rest = [image for n, image in enumerate(images, 1) if n not in numbers]
        question = MARKER * len(rest) + _NUMBERED.sub(MARKER, question)
        images = (*rest, *(images[n - 1] for n in numbers))
    count = question.count(MARKER)
    if count not in (0, len(images)):
        raise BadRow("image_markers", f"the question has {count} {MARKER} markers, the row has {len(images)} images")
    leading = _LEADING.match(question)
    if leading and leading[0].count(MARKER) == count:
        question = question[leading.end() :]
    return question, images
