"""Comparing what two answers say, by what the gold answer is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mmcredit.data.answers.nodes import Call, Name, Node, variables, walk
from mmcredit.data.answers.structure import base_name
from mmcredit.data.answers.values import Items, Matrix, Quantity, Ratio, Relation, Union, Value
from mmcredit.reward.numbers import Finding, Numbers, right_if, shape
from mmcredit.reward.verdict import Outcome

WRONG: Finding = (Outcome.WRONG, "structure")
_FLIP = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}


@dataclass(frozen=True)
class Comparison:
    """Compares values; formulas in them with ``numbers``."""

    numbers: Numbers

    def same(self, gold: Value, answer: Value) -> Finding:
        """Whether the answer is the gold value."""
        by_gold: dict[type, Callable[..., Finding]] = {
            Quantity: self.quantity, Relation: self.relation, Items: self.items, Union: self.union,
            Matrix: self.matrix, Ratio: self.ratio,
        }  # fmt: skip
        return by_gold[type(gold)](gold, answer)

    def quantity(self, gold: Quantity, answer: Value) -> Finding:
        if isinstance(answer, Quantity):
            return self.numbers.same(gold, answer)
        if isinstance(answer, Relation) and (value := self.assigned(answer)) is not None:
            return self.numbers.same(gold, value)
        if isinstance(answer, Ratio) and len(answer.parts) == 2:
            return self.numbers.equal(gold.node, _quotient(answer))
        if isinstance(answer, Items) and len(answer.items) == 1:
            return self.same(gold, answer.items[0])
        return WRONG

    def assigned(self, relation: Relation) -> Quantity | None:
        """The value of ``x = 3``, ``A = \\pi r^2 = 9\\pi``, ``1 + 2 = 3``; None where something else is said."""
        first, last = relation.terms[0], relation.terms[-1]
        if set(relation.signs) != {"="}:
            return None
        if _is_label(first.node):
            return last
        if _is_label(last.node):
            return first
        constant = not variables(first.node) and not variables(last.node)
        return last if constant and self.numbers.equal(first.node, last.node)[0] is Outcome.RIGHT else None

    def relation(self, gold: Relation, answer: Value) -> Finding:
        if set(gold.signs) == {"="}:
            return self.equation(gold, answer)
        if isinstance(answer, Relation) and (finding := self.side_by_side(gold, answer))[0] is Outcome.RIGHT:
            return finding
        return self.union(Union((gold,)), answer)

    def equation(self, gold: Relation, answer: Value) -> Finding:
        value = gold.terms[-1] if _is_label(gold.terms[0].node) else self.assigned(gold)
        if isinstance(answer, Quantity | Items):
            return WRONG if value is None else self.same(value, answer)
        if not isinstance(answer, Relation):
            return WRONG
        finding = self.side_by_side(gold, answer)
        if finding[0] is not Outcome.WRONG:
            return finding
        ours, theirs = base_name(gold), base_name(answer)
        if value is not None and ours and not variables(value.node):  # solved: it must be solved there, too
            other = self.assigned(answer)
            agree = other is not None and theirs in ("", ours) and Name(ours) not in walk(other.node)
            named = _is_label(answer.terms[-1].node) and variables(answer.terms[-1].node) == {gold_name(gold)}
            known = agree and (bool(theirs) or named)
            return self.numbers.same(value, other) if known and other is not None else WRONG
        return self.proportional(gold, answer)

    def side_by_side(self, gold: Relation, answer: Relation) -> Finding:
        """Term by term, also read from the right."""
        finding = WRONG
        for terms, signs in ((answer.terms, answer.signs), _mirrored(answer)):
            if signs == gold.signs:
                finding = self.all_same(gold.terms, terms)
                if finding[0] is not Outcome.WRONG:
                    break
        return finding

    def proportional(self, gold: Relation, answer: Relation) -> Finding:
        """Whether left - right of one is a multiple of that of the other."""
        if len(gold.signs) != 1 or len(answer.signs) != 1 or set(answer.signs) != {"="}:
            return WRONG
        ours, theirs = (Call("sub", (r.terms[0].node, r.terms[1].node)) for r in (gold, answer))
        f, g = shape(ours), shape(theirs)
        if f and g:
            monomial = min(f)
            factor = g.get(monomial, 0) / f[monomial]
            return right_if(bool(factor) and {m: c * factor for m, c in f.items()} == g, "exact")
        finding = self.numbers.equal(ours, theirs)
        return finding if finding[0] is not Outcome.WRONG else self.numbers.equal(ours, Call("neg", (theirs,)))

    def items(self, gold: Items, answer: Value) -> Finding:
        if not isinstance(answer, Items):
            relation = isinstance(answer, Relation | Union) and self.numbers.policy.inequality_for_interval
            if relation and len(gold.items) == 2:
                return self.union(Union((gold,)), answer)
            return self.same(gold.items[0], answer) if len(gold.items) == 1 else WRONG
        if len(gold.items) != len(answer.items):
            return WRONG
        ours, theirs = _named(gold), _named(answer)
        if ours and theirs:
            return self.all_same([ours[n] for n in ours], [theirs[n] for n in ours]) if set(ours) == set(theirs) else WRONG
        if theirs and _is_tuple(gold):
            return self.all_same(gold.items, [theirs[name] for name in sorted(theirs)])
        if ours and _is_tuple(answer):
            return self.all_same([ours[name] for name in sorted(ours)], answer.items)
        if not _brackets_agree(gold, answer):
            return WRONG
        bare_answer_free = not answer.opening and not answer.ordered and not gold.opening
        free = not gold.ordered or bare_answer_free or (not gold.opening and not self.numbers.policy.ordered)
        return self.matched(gold.items, answer.items) if free else self.all_same(gold.items, answer.items)

    def all_same(self, gold: Sequence[Value], answer: Sequence[Value]) -> Finding:
        """Item by item: wrong if one is, else the worst of the others."""
        if len(gold) != len(answer):
            return WRONG
        worst: Finding = (Outcome.RIGHT, "structure")
        for ours, theirs in zip(gold, answer, strict=True):
            finding = self.same(ours, theirs)
            if finding[0] is Outcome.WRONG:
                return finding
            worst = finding if finding[0] is not Outcome.RIGHT else worst
        return worst

    def matched(self, gold: Sequence[Value], answer: Sequence[Value]) -> Finding:
        """In any order, each item once."""
        left, worst = list(answer), WRONG
        for ours in gold:
            for i, theirs in enumerate(left):
                finding = self.same(ours, theirs)
                if finding[0] is Outcome.RIGHT:
                    del left[i]
                    break
                worst = finding if finding[0] is not Outcome.WRONG else worst
            else:
                return worst
        return right_if(not left, "structure")

    def union(self, gold: Union, answer: Value) -> Finding:
        """Intervals and inequalities, in any order."""
        parts = answer.parts if isinstance(answer, Union) else (answer,)
        inequalities = any(isinstance(part, Relation) for part in parts)
        asked = any(isinstance(part, Relation) for part in gold.parts)
        if inequalities and not asked and not self.numbers.policy.inequality_for_interval:
            return WRONG
        ours, theirs = [_interval(part) for part in gold.parts], [_interval(part) for part in parts]
        names = {name for name, _ in (*ours, *theirs) if name}
        if len(names) > 1 or len(ours) != len(theirs):
            return WRONG
        return self.matched([part for _, part in ours], [part for _, part in theirs])

    def matrix(self, gold: Matrix, answer: Value) -> Finding:
        if isinstance(answer, Items) and all(isinstance(row, Items) for row in answer.items):
            answer = Matrix(tuple(row.items for row in answer.items if isinstance(row, Items)))
        if not isinstance(answer, Matrix) or [len(row) for row in gold.rows] != [len(row) for row in answer.rows]:
            return WRONG
        return self.all_same([c for row in gold.rows for c in row], [c for row in answer.rows for c in row])

    def ratio(self, gold: Ratio, answer: Value) -> Finding:
        if isinstance(answer, Relation) and (value := self.assigned(answer)) is not None:
            answer = value
        if isinstance(answer, Quantity) and len(gold.parts) == 2:
            return self.numbers.equal(_quotient(gold), answer.node)
        if not isinstance(answer, Ratio) or len(answer.parts) != len(gold.parts):
            return WRONG
        ours, theirs = ([part.node for part in side.parts] for side in (gold, answer))
        if gold.clock:
            return self.all_same(gold.parts, answer.parts)
        products = [(Call("mul", (o, theirs[0])), Call("mul", (t, ours[0]))) for o, t in zip(ours, theirs, strict=True)]
        findings = [self.numbers.equal(*pair) for pair in products]
        return next((finding for finding in findings if finding[0] is not Outcome.RIGHT), findings[0])


def gold_name(gold: Relation) -> str:
    """The variable that a gold equation is solved for."""
    node = gold.terms[0].node
    return node.name if isinstance(node, Name) else ""


def _is_label(node: Node) -> bool:
    """``x``, ``AB``, ``f(x)``: letters only."""
    return bool(variables(node)) and all(isinstance(n, Name) or (isinstance(n, Call) and n.head == "mul") for n in walk(node))


def _mirrored(relation: Relation) -> tuple[tuple[Quantity, ...], tuple[str, ...]]:
    return relation.terms[::-1], tuple(_FLIP[sign] for sign in relation.signs[::-1])


def _quotient(ratio: Ratio) -> Node:
    return Call("div", (ratio.parts[0].node, ratio.parts[1].node))


def _is_tuple(items: Items) -> bool:
    return (items.opening, items.closing) in (("(", ")"), ("", ""))


def _named(items: Items) -> dict[str, Value]:
    """Values by variable, of ``x = 1, y = 2``; empty for anything else."""
    found: dict[str, Value] = {}
    for item in items.items:
        if not (isinstance(item, Relation) and item.signs == ("=",) and isinstance(name := item.terms[0].node, Name)):
            return {}
        found[name.name] = item.terms[1]
    return found if len(found) == len(items.items) > 1 and items.ordered else {}


def _brackets_agree(gold: Items, answer: Items) -> bool:
    """Sets and lists take a bare list; intervals and tuples their own brackets, long or round ones also none."""
    if (gold.opening, gold.closing) == (answer.opening, answer.closing):
        return True
    if not gold.opening:
        return answer.opening != "[" or len(gold.items) > 2
    return not answer.opening and (gold.opening != "[" or len(gold.items) > 2) and gold.closing != "]"


def _interval(part: Value) -> tuple[str, Value]:
    """The interval that an inequality in one variable means, and its variable."""
    if not isinstance(part, Relation):
        return "", part
    terms, signs = (part.terms, part.signs) if part.signs[0] in ("<", "<=") else _mirrored(part)
    infinite = Quantity(Name("oo"))
    if len(terms) == 2 and isinstance(terms[0].node, Name):
        terms, signs = (Quantity(Call("neg", (infinite.node,))), *terms), ("<", *signs)
    elif len(terms) == 2:
        terms, signs = (*terms, infinite), (*signs, "<")
    if len(terms) != 3 or not isinstance(name := terms[1].node, Name) or not set(signs) <= {"<", "<="}:
        return "", part
    brackets = "[" if signs[0] == "<=" else "(", "]" if signs[1] == "<=" else ")"
    return name.name, Items((terms[0], terms[2]), *brackets)


