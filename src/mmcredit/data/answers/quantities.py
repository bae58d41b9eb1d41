"""One formula with its unit, percent sign, or scale word."""

from __future__ import annotations

import re
from fractions import Fraction

from mmcredit.data.answers import units
from mmcredit.data.answers.grammar import expression
from mmcredit.data.answers.nodes import Call, Name, Node, Num, variables
from mmcredit.data.answers.numerals import SCALES, in_words, numeral, places
from mmcredit.data.answers.tokens import tokenize
from mmcredit.data.answers.values import Quantity

_PERCENT = re.compile(r"\s*(?:%|percent(?:age)?|per ?cent|pct\.?)(?: points?)?$", re.IGNORECASE)
_SCALE = re.compile(rf"(.*\S) ({'|'.join(SCALES)})", re.IGNORECASE)


def plain_quantity(text: str) -> Quantity | None:
    """A numeral with what belongs to it; None for any other text."""
    body, percent = _percent(text)
    if (number := numeral(body)) is not None:
        return Quantity(Num(number), None, percent, places(body))
    body, unit = units.split(body)
    number = numeral(body) if unit else None
    return None if number is None else Quantity(Num(number), unit, percent, places(body))


def quantity(text: str) -> Quantity:
    """A formula with what belongs to it.

    Raises:
        NoFormula: it is none.
    """
    if (plain := plain_quantity(text.strip())) is not None:
        return plain
    body, percent = _percent(text.strip())
    bare, unit = units.split(body)
    if unit is not None:
        node = _scaled(bare)
        if not variables(node):
            return Quantity(node, unit, percent)
    return Quantity(_scaled(body), None, percent)


def _percent(text: str) -> tuple[str, bool]:
    found = _PERCENT.search(text)
    return (text[: found.start()], True) if found else (text, False)


def _scaled(text: str) -> Node:
    """``1.5 million``, ``two``."""
    if (number := in_words(text)) is not None:
        return Num(number)
    if found := _SCALE.fullmatch(text):
        return Call("mul", (_scaled(found[1]), Num(Fraction(SCALES[found[2].lower()]))))
    return expression(tokenize(text))


def single_letter_unit(found: Quantity) -> Quantity | None:
    """``5m`` read as five metres instead of a product; None where that cannot be."""
    node = found.node
    if not (isinstance(node, Call) and node.head == "mul" and isinstance(node.args[1], Name)):
        return None
    unit = units.unit(node.args[1].name)
    return None if unit is None or variables(node.args[0]) else Quantity(node.args[0], unit)
