"""Comparing what two answers say, by what the gold answer is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mmcredit.data.answers.nodes import Call, Name, variables
from mmcredit.data.answers.numeric import real
from mmcredit.data.answers.values import Items, Matrix, Quantity, Ratio, Relation, Union, Value
from mmcredit.reward.numbers import Finding, Numbers, right_if, shape
from mmcredit.reward.relations import brackets_agree, by_name, interval, is_label, label, mirrored, quotient
from mmcredit.reward.verdict import Outcome

ROUNDED = 0.01  # largest relative difference of a value and what it is rounded to
WRONG: Finding = (Outcome.WRONG, "structure")


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
        if isinstance(answer, Relation) and (said := self.said(answer)):
            findings = [self.numbers.same(gold, value) for value in said]
            return next((finding for finding in findings if finding[0] is Outcome.RIGHT), findings[0])
        if isinstance(answer, Ratio) and len(answer.parts) == 2:
            return self.numbers.equal(gold.node, quotient(answer))
        if isinstance(answer, Items) and len(answer.items) == 1:
            return self.same(gold, answer.items[0])
        return WRONG

    def said(self, relation: Relation) -> list[Quantity]:
        """The value that is assigned, and what it is rounded to: both of ``x = 5\\sqrt{2} \\approx 7.07``."""
        before, last = relation.terms[: relation.rounded], relation.terms[-1]
        if not before or (len(before) == 1 and is_label(before[0].node)):
            return [] if (value := self.assigned(relation)) is None else [value]
        exact = before[0] if len(before) == 1 else self.assigned(Relation(before, relation.signs[: len(before) - 1]))
        sizes = None if exact is None else (real(exact.node), real(last.node))
        if exact is None or sizes is None or sizes[0] is None or sizes[1] is None:
            return []
        return [exact, last] if abs(sizes[0] - sizes[1]) <= ROUNDED * abs(sizes[0]) else []

    def assigned(self, relation: Relation) -> Quantity | None:
        """The value of ``x = 3``, ``A = \\pi r^2 = 9\\pi``, ``1 + 2 = 3``; None where something else is said."""
        first, last = relation.terms[0], relation.terms[-1]
        if set(relation.signs) != {"="}:
            return None
        if is_label(first.node):
            return last
        if is_label(last.node):
            return first
        constant = not variables(first.node) and not variables(last.node)
        return last if constant and self.numbers.equal(first.node, last.node)[0] is Outcome.RIGHT else None

    def relation(self, gold: Relation, answer: Value) -> Finding:
        if set(gold.signs) == {"="}:
            return self.equation(gold, answer)
        if isinstance(answer, Relation) and (finding := self.side_by_side(gold, answer))[0] is Outcome.RIGHT:
            return finding
        solved = not isinstance(interval(gold)[1], Relation)
        return self.union(Union((gold,)), answer) if solved else WRONG

    def equation(self, gold: Relation, answer: Value) -> Finding:
        value = self.assigned(gold)
        if isinstance(answer, Quantity | Items):
            return WRONG if value is None else self.same(value, answer)
        if not isinstance(answer, Relation):
            return WRONG
        finding = self.side_by_side(gold, answer)
        if finding[0] is not Outcome.WRONG:
            return finding
        name, other = label(gold), self.assigned(answer)
        if value is not None and other is not None and name == label(answer):
            return self.numbers.same(value, other)
        solved = isinstance(name, Name) and value is not None and not variables(value.node)
        return WRONG if solved else self.proportional(gold, answer)

    def side_by_side(self, gold: Relation, answer: Relation) -> Finding:
        """Term by term, also read from the right."""
        finding = WRONG
        for terms, signs in ((answer.terms, answer.signs), mirrored(answer)):
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
            return self.item(gold, answer)
        if len(gold.items) != len(answer.items):
            return WRONG
        if (pairs := by_name(gold, answer)) is not None:
            return self.all_same(*pairs)
        if not brackets_agree(gold, answer):
            return WRONG
        bare = not gold.opening and ((not answer.opening and not answer.ordered) or not self.numbers.policy.ordered)
        if bare or not gold.ordered:
            return self.matched(gold.items, answer.items)
        return self.all_same(gold.items, answer.items)

    def item(self, gold: Items, answer: Value) -> Finding:
        """One value against several."""
        relation = isinstance(answer, Relation | Union) and self.numbers.policy.inequality_for_interval
        if relation and len(gold.items) == 2:
            return self.union(Union((gold,)), answer)
        return self.same(gold.items[0], answer) if len(gold.items) == 1 else WRONG

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
        ours, theirs = [interval(part) for part in gold.parts], [interval(part) for part in parts]
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
            return self.numbers.equal(quotient(gold), answer.node)
        if not isinstance(answer, Ratio) or len(answer.parts) != len(gold.parts):
            return WRONG
        ours, theirs = ([part.node for part in side.parts] for side in (gold, answer))
        if gold.half and answer.half and gold.half != answer.half:
            return WRONG
        if gold.clock:
            return self.all_same(gold.parts, answer.parts)
        products = [(Call("mul", (o, theirs[0])), Call("mul", (t, ours[0]))) for o, t in zip(ours, theirs, strict=True)]
        findings = [self.numbers.equal(*pair) for pair in products]
        return next((finding for finding in findings if finding[0] is not Outcome.RIGHT), findings[0])
