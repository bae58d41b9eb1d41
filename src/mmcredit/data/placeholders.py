"""Where pictures stand in a question: ``<image>``, or ``<image 2>`` by number.

No placeholder: all pictures come before the question. As many placeholders as pictures: each stands in its place.
Anything else is no question that a model can be asked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from mmcredit.data.gate import BadRow

PLACEHOLDER = re.compile(r"<image(?:\s?(\d{1,3}))?>")
Picture = TypeVar("Picture")
Part = str | int  # text, or the number of a picture, from 0


def split_question(question: str, images: int) -> list[Part]:
    """Texts and pictures of a question in order of appearance; pictures at its beginning lose the space after them.

    A number that comes again is text (``image 2``): the picture stands where it is first named.

    Raises:
        BadRow: ``placeholder_count``, pictures without a place or places without a picture; ``placeholder_mixed``,
            some with a number and some without.
    """
    numbers = [mark[1] for mark in PLACEHOLDER.finditer(question)]
    if not numbers:
        return [*range(images), question]
    numbered = [n for n in numbers if n is not None]
    if numbered and len(numbered) < len(numbers):
        raise BadRow("placeholder_mixed", "the question has both <image> and <image 1> placeholders")
    named = list(dict.fromkeys(int(n) - 1 for n in numbered)) if numbered else list(range(len(numbers)))
    if sorted(named) != list(range(images)):
        found = ", ".join(f"<image {n + 1}>" for n in named) if numbered else f"{len(numbers)} <image> placeholders"
        raise BadRow("placeholder_count", f"the question has {found} but there are {images} images")
    return _leading_first(_parts(question, named if numbered else None))


def in_order(question: str, images: Sequence[Picture]) -> tuple[str, tuple[Picture, ...]]:
    """The question with plain ``<image>`` placeholders, and its pictures in the order in which they appear.

    Raises:
        BadRow: as ``split_question``.
    """
    if not PLACEHOLDER.search(question):
        return question, tuple(images)
    parts = split_question(question, len(images))
    text = "".join("<image>" if isinstance(part, int) else part for part in parts)
    return text, tuple(images[part] for part in parts if isinstance(part, int))


def _parts(question: str, named: list[int] | None) -> list[Part]:
    """``named``: pictures by number in order of their first mention; None where placeholders have no numbers."""
    parts, end, seen = list[Part](), 0, 0
    for mark in PLACEHOLDER.finditer(question):
        parts.append(question[end : mark.start()])
        place = seen if named is None else named.index(int(mark[1]) - 1)
        if place < seen:
            parts.append(f"image {place + 1}")
        else:
            parts.append(place if named is None else named[place])
            seen += 1
        end = mark.end()
    return [*parts, question[end:]]


def _leading_first(parts: Sequence[Part]) -> list[Part]:
    """Neighbouring texts joined, empty ones dropped, white space up to the first word dropped after a picture."""
    joined = list[Part]()
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif isinstance(part, int) or part:
            joined.append(part)
    first = next((i for i, part in enumerate(joined) if isinstance(part, str) and part.strip()), len(joined))
    lead = [part for part in joined[:first] if isinstance(part, int)]
    rest = joined[first:]
    if lead and rest and isinstance(rest[0], str):
        rest[0] = rest[0].lstrip()
    return [*lead, *rest]
