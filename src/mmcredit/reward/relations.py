"""What equations, inequalities and brackets mean."""

from __future__ import annotations

from collections.abc import Sequence

from mmcredit.data.answers.nodes import Call, Name, Node, Num, variables, walk
from mmcredit.data.answers.values import Items, Quantity, Ratio, Relation, Value

_FUNCTIONS = (Name("f"), Name("g"), Name("h"), Name("F"), Name("G"))
_FLIP = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}


def label(relation: Relation) -> Node | None:
    """What an equation gives the value of."""
    ends = (relation.terms[0].node, relation.terms[-1].node)
    return next((node for node in ends if is_label(node)), None)


def is_label(node: Node) -> bool:
    """``x``, ``AB``, ``|AB|``, ``f(x)``: letters only; and ``f(2)``."""
    if isinstance(node, Call) and node.head == "mul" and node.args[0] in _FUNCTIONS:
        return all(isinstance(n, Name | Num) or n.head in ("mul", "neg") for n in walk(node))
    if isinstance(node, Call) and node.head == "abs" and isinstance(node.args[0], Call):
        return is_label(node.args[0])
    return bool(variables(node)) and all(
        isinstance(n, Name) or (isinstance(n, Call) and n.head == "mul") for n in walk(node)
    )


def mirrored(relation: Relation) -> tuple[tuple[Quantity, ...], tuple[str, ...]]:
    return relation.terms[::-1], tuple(_FLIP[sign] for sign in relation.signs[::-1])


def quotient(ratio: Ratio) -> Node:
    return Call("div", (ratio.parts[0].node, ratio.parts[1].node))


def is_tuple(items: Items) -> bool:
    return (items.opening, items.closing) in (("(", ")"), ("", ""))


def named(items: Items) -> dict[str, Value]:
    """Values by variable, of ``x = 1, y = 2``; empty for anything else."""
    found: dict[str, Value] = {}
    for item in items.items:
        if not (isinstance(item, Relation) and item.signs == ("=",) and isinstance(name := item.terms[0].node, Name)):
            return {}
        found[name.name] = item.terms[1]
    return found if len(found) == len(items.items) > 1 and items.ordered else {}


def by_name(gold: Items, answer: Items) -> tuple[Sequence[Value], Sequence[Value]] | None:
    """Values side by side, where one is ``x = 1, y = 2``: by variable, or against a tuple in alphabetical order."""
    ours, theirs = named(gold), named(answer)
    if ours and theirs:
        return ([*ours.values()], [theirs[n] for n in ours]) if set(ours) == set(theirs) else ([gold], [])
    if theirs and is_tuple(gold):
        return gold.items, [theirs[name] for name in sorted(theirs)]
    if ours and is_tuple(answer):
        return [ours[name] for name in sorted(ours)], answer.items
    return None


def brackets_agree(gold: Items, answer: Items) -> bool:
    """Sets and lists take a bare list; intervals and tuples their own brackets, long or round ones also none."""
    if (gold.opening, gold.closing) == (answer.opening, answer.closing):
        return True
    if not gold.opening:
        return answer.opening != "[" or len(gold.items) > 2
    square = gold.opening == "[" or gold.closing == "]"
    return not answer.opening and (not square or len(gold.items) > 2)


def interval(part: Value) -> tuple[str, Value]:
    """The interval that an inequality in one variable means, and its variable."""
    if not isinstance(part, Relation):
        return "", part
    terms, signs = (part.terms, part.signs) if part.signs[0] in ("<", "<=") else mirrored(part)
    infinite = Quantity(Name("oo"))
    if len(terms) == 2 and isinstance(terms[0].node, Name):
        terms, signs = (Quantity(Call("neg", (infinite.node,))), *terms), ("<", *signs)
    elif len(terms) == 2:
        terms, signs = (*terms, infinite), (*signs, "<")
    if len(terms) != 3 or not isinstance(name := terms[1].node, Name) or not set(signs) <= {"<", "<="}:
        return "", part
    brackets = "[" if signs[0] == "<=" else "(", "]" if signs[1] == "<=" else ")"
    return name.name, Items((terms[0], terms[2]), *brackets)
