"""Lists, tuples, intervals, sets, matrices and relations out of a text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mmcredit.data.answers.brackets import Brackets
from mmcredit.data.answers.nodes import Name, Node, has, replaced
from mmcredit.data.answers.quantities import plain_quantity, quantity
from mmcredit.data.answers.tokens import NoFormula
from mmcredit.data.answers.values import Items, Matrix, Quantity, Ratio, Relation, Union, Value

LONGEST = 512  # characters of a formula
MOST_ITEMS, DEEPEST = 64, 8
_UNION_LETTER = re.compile(r"(?<=[)\]])\s*(?:U|union)\s*(?=[(\[])")
_MEMBER = re.compile(r"^[A-Za-z](?:\s*,\s*[A-Za-z])*\s*(?:\\in(?![A-Za-z])|\sin\b)\s*(?=[(\[{\\])")
_BUILDER = re.compile(  # {x | x > 2}
    r"^\\?\{\s*([A-Za-z])\s*(?:\\in\s*[A-Z](?:\^?[+*])?\s*)?(?:\\?\||\\mid(?![A-Za-z])|:|\\vert(?![A-Za-z]))"
    r"\s*([^{}|]*\1[^{}|]*?)\\?\}$"
)
_LABEL = re.compile(r"^(?:the )?(?:[A-Za-z]+ ){0,4}[A-Za-z]{4,}(?:\s*[=:]\s*|\s+is\s+)(?=\S*\d)")  # Area = 12
_POINT = re.compile(r"^[A-Z](?:_\{?\d\}?|')?\s*=?\s*(?=\([^()]*,.*\)$)")  # P(3,4)
_OUTWARD = re.compile(r"^\](.+)([\]\[])$|^(\[.+)\[$")
_ENVIRONMENT = r"\\begin\s*\{([pbBvV]?matrix|smallmatrix|array|cases|aligned)\}(?:\s*\{[clr|]*\})?(.*)\\end\s*\{\1\}"
_MATRIX = re.compile(_ENVIRONMENT)
_ROW, _CELL, _COLON = re.compile(r"\\\\(?:\[\w*\])?"), re.compile("&"), re.compile(":")
_CLOCK = re.compile(r"(\d{1,2})\s*:\s*([0-5]\d)(?:\s*([ap])\.?m\.?)?", re.IGNORECASE)
_CUP = re.compile(r"\\cup(?![A-Za-z])")
_SEMICOLON, _OR = re.compile(";"), re.compile(r",?\s*(?:\bor\b|\\lor(?![A-Za-z])|\\vee(?![A-Za-z]))")
_COMMA = re.compile(r",?\s*(?:\band\b|\\land(?![A-Za-z]))|,(?!\d{3}(?!\d))|(?<!\d),|,(?=\s)")  # but 3,000
_INNER, _INNER_SPACED = re.compile("[,;]"), re.compile(r",(?=\s)|;")
_THOUSANDS = re.compile(r"\d,\d{3}(?!\d)")
_RELATION = re.compile(r"<=|>=|!=|==|=|<|>|\\(?:leqslant|geqslant|leq|geq|neq|le|ge|ne|lt|gt|approx)(?![A-Za-z])")
_SIGN = {"==": "=", "\\approx": "=", "\\leq": "<=", "\\le": "<=", "\\leqslant": "<=", "\\geq": ">=", "\\ge": ">="}
_SIGN |= {"\\geqslant": ">=", "\\ne": "!=", "\\neq": "!=", "\\lt": "<", "\\gt": ">"}


def structured(text: str) -> Value:
    """The value of a cleaned text.

    Raises:
        NoFormula: the text is no formula of the grammar, or larger than its bounds.
    """
    if len(text) > LONGEST:
        raise NoFormula("too long")
    text = _POINT.sub("", _LABEL.sub("", text))
    return _value(_MEMBER.sub("", _UNION_LETTER.sub(r"\\cup ", text)), 0)


def _value(text: str, depth: int) -> Value:
    text = _BUILDER.sub(r"\2", _inward(text.strip().rstrip(",;")))
    if depth > DEEPEST:
        raise NoFormula("nested too deeply")
    if (plain := plain_quantity(text)) is not None:
        return plain
    if text == "\\emptyset":
        return Items((), "{", "}", ordered=False)
    if found := _MATRIX.fullmatch(text):
        return _matrix(found[1], found[2], depth + 1)
    brackets = Brackets(text)
    for read in (_union, _listed, _relation, _bracketed, _ratio):
        if (value := read(brackets, depth + 1)) is not None:
            return value
    return _both_signs(quantity(text))


def _inward(text: str) -> str:
    """``]0,1[`` as ``(0,1)``."""
    found = _OUTWARD.match(text)
    if not found:
        return text
    return f"{found[3]})" if found[3] else f"({found[1]}{')' if found[2] == '[' else ']'}"


def _values(parts: Sequence[str], depth: int) -> tuple[Value, ...]:
    if len(parts) > MOST_ITEMS:
        raise NoFormula("too many items")
    found: list[Value] = []
    for value in (_value(part, depth) for part in parts):
        both = isinstance(value, Items) and not (value.opening or value.ordered)  # \\pm 1 among others
        found += value.items if both and isinstance(value, Items) else [value]
    return tuple(found)


def _union(brackets: Brackets, depth: int) -> Value | None:
    parts = brackets.split(_CUP)
    return Union(_values(parts, depth)) if len(parts) > 1 else None


def _listed(brackets: Brackets, depth: int) -> Value | None:
    """Parts between semicolons, *or*, commas, *and*."""
    for separator in (_SEMICOLON, _OR, _COMMA):
        parts = [part for part in brackets.split(separator) if part.strip()]
        if len(parts) > 1:
            return _joined(_values(parts, depth), ordered=separator is not _OR)
    return None


def _joined(items: tuple[Value, ...], ordered: bool) -> Value:
    relations = [item for item in items if isinstance(item, Relation)]
    if len(relations) == len(items):
        if not ordered and all("=" not in relation.signs for relation in relations):
            return Union(items)
        names = {base_name(relation) for relation in relations}
        ordered = ordered and not (len(names) == 1 and "" not in names)  # x = 1, x = 2 are solutions
    elif isinstance(first := items[0], Relation) and len(relations) == 1 and first.signs == ("=",):
        return Items((first.terms[1], *items[1:]), ordered=False)  # x = 1 or 2
    return Items(items, ordered=ordered)


def base_name(relation: Relation) -> str:
    """The variable that stands alone on the left, without its index; empty where there is none."""
    node = relation.terms[0].node
    return node.name.split("_")[0] if isinstance(node, Name) else ""


def _relation(brackets: Brackets, _: int) -> Value | None:
    parts = brackets.split(_RELATION, keep=True)
    if len(parts) < 3:
        return None
    signs = tuple(_SIGN.get(sign, sign) for sign in parts[1::2])
    terms = [_both_signs(quantity(part)) for part in parts[::2]]
    if isinstance(last := terms[-1], Items):
        both = [Relation((*_single(terms[:-1]), *_single([item])), signs) for item in last.items]
        return Items(tuple(both), ordered=False)
    rounded = next((i for i, sign in enumerate(parts[1::2], 1) if sign == "\\approx"), 0)
    return Relation(_single(terms), signs, rounded)


def _single(terms: Sequence[Value]) -> tuple[Quantity, ...]:
    if not all(isinstance(term, Quantity) for term in terms):
        raise NoFormula("two signs at once")
    return tuple(term for term in terms if isinstance(term, Quantity))


def _bracketed(brackets: Brackets, depth: int) -> Value | None:
    opening, closing, inner = brackets.around()
    if not opening:
        return None
    commas, thousands = inner.count(","), len(_THOUSANDS.findall(inner))
    spaced = re.search(r",\s", inner) and commas == thousands + len(re.findall(r",\s", inner))
    parts = Brackets(inner).split(_INNER_SPACED if spaced else _INNER) if inner.strip() else []
    if opening == "\\{" or (opening == "{" and len(parts) > 1):
        return Items(_values(parts, depth), "{", "}", ordered=False)
    if len(parts) > 1:
        shown = {"\\langle": "(", "\\rangle": ")"}
        return Items(_values(parts, depth), shown.get(opening, opening), shown.get(closing, closing))
    inside = _value(inner, depth)
    return None if isinstance(inside, Quantity) else inside


def _ratio(brackets: Brackets, _: int) -> Value | None:
    parts = brackets.split(_COLON)
    if clock := _CLOCK.fullmatch(brackets.text):
        return Ratio((quantity(clock[1]), quantity(clock[2])), clock=True, half=(clock[3] or "").lower())
    return Ratio(tuple(map(quantity, parts))) if 1 < len(parts) <= 6 else None


def _matrix(name: str, body: str, depth: int) -> Value:
    rows = [row for row in Brackets(body).split(_ROW) if row.strip()]
    if name in ("cases", "aligned"):
        return _joined(_values([row.replace("&", "") for row in rows], depth), ordered=True)
    cells = [_values(Brackets(row).split(_CELL), depth) for row in rows]
    if not cells or len({len(row) for row in cells}) != 1:
        raise NoFormula("rows of different lengths")
    return Matrix(tuple(cells))


def _both_signs(found: Quantity) -> Value:
    """Two values for a plus-or-minus sign."""
    if not has(found.node, "pm"):
        return found
    nodes: list[Node] = [replaced(found.node, "pm", head) for head in ("add", "sub")]
    return Items(tuple(Quantity(node, found.unit, found.percent) for node in nodes), ordered=False)
