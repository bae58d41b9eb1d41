"""Comparing two formulas: exact normal forms, then floating point, then symbols in another process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from mmcredit.data.answers.forms import Form, NoForm, form, rational
from mmcredit.data.answers.nodes import Call, Name, Node, Num, has, variables, walk
from mmcredit.data.answers.numeric import differ, real
from mmcredit.data.answers.units import Unit, agree
from mmcredit.data.answers.values import Quantity
from mmcredit.reward.verdict import Outcome, Policy

Finding = tuple[Outcome, str]  # outcome and the stage that decided
Prove = Callable[[Node, Node], Outcome]
MOST_NODES, MOST_NAMES, LARGEST_EXPONENT, MOST_DIGITS = 200, 6, 64, 40
MOST_POWERS = 8  # of sums and products, in a normal form
_SLOW = frozenset(("factorial", "binomial"))


def right_if(equal: bool, stage: str) -> Finding:
    return (Outcome.RIGHT if equal else Outcome.WRONG), stage


def affordable(node: Node) -> bool:
    """Whether symbols may be computed with: no towers, factorials, large exponents or numbers."""
    nodes = walk(node)
    numbers = [one.value for one in nodes if isinstance(one, Num)]
    powers = [one for one in nodes if isinstance(one, Call) and one.head == "pow"]
    return (
        len(nodes) <= MOST_NODES
        and len(variables(node)) <= MOST_NAMES
        and all(len(str(abs(n.numerator) * n.denominator)) <= MOST_DIGITS for n in numbers if _small(n))
        and all(map(_small, numbers))
        and not any(isinstance(one, Call) and one.head in _SLOW for one in nodes)
        and all(_exponent(power.args[1]) and not _high(power) for power in powers)
    )


def _small(number: Fraction) -> bool:
    return number.numerator.bit_length() + number.denominator.bit_length() <= 4 * MOST_DIGITS


def _exponent(node: Node) -> bool:
    """No power in the exponent, and no large number."""
    value = rational(node)
    if value is not None:
        return abs(value) <= LARGEST_EXPONENT and value.denominator <= LARGEST_EXPONENT
    numbers = [one.value for one in walk(node) if isinstance(one, Num)]
    return not has(node, "pow") and all(abs(n) <= LARGEST_EXPONENT for n in numbers)


def _high(power: Call) -> bool:
    """Powers of powers, together above the largest exponent."""
    total, node = Fraction(1), power
    for one in walk(node):
        if isinstance(one, Call) and one.head == "pow":
            total *= max(abs(rational(one.args[1]) or Fraction(1)), Fraction(1))
    return total > 4 * LARGEST_EXPONENT


def shape(node: Node) -> Form | None:
    """The normal form of an expression, None where it has none or takes long."""
    if (
        sum(isinstance(one, Call) and one.head == "pow" and isinstance(one.args[0], Call) for one in walk(node))
        > MOST_POWERS
    ):
        return None
    try:
        return form(node)
    except NoForm:
        return None


@dataclass(frozen=True)
class Numbers:
    """Compares formulas and quantities under a policy."""

    policy: Policy
    prove: Prove

    def equal(self, gold: Node, answer: Node) -> Finding:
        """Whether two formulas have the same value, wherever both are defined."""
        if gold == answer:
            return Outcome.RIGHT, "exact"
        if Name("oo") in walk(gold) or Name("oo") in walk(answer):
            return Outcome.WRONG, "exact"
        ours, theirs = shape(gold), shape(answer)
        if ours is not None and theirs is not None:
            return right_if(ours == theirs, "exact")
        different = differ(gold, answer)
        if different:
            return Outcome.WRONG, "numeric"
        if not (affordable(gold) and affordable(answer)):
            return Outcome.UNPARSABLE, "bound"
        return self.prove(gold, answer), "symbolic"

    def same(self, gold: Quantity, answer: Quantity) -> Finding:
        """Whether two quantities are equal: units, percent signs, tolerance."""
        scale = agree(gold.unit, answer.unit) if self.policy.units == "match" else Fraction(1)
        if scale is None:
            return Outcome.WRONG, "units"
        if (angles := _angles(gold, answer)) is not None:
            return self.equal(*angles)
        finding = Outcome.WRONG, "exact"
        for ours, theirs in self._percent(gold, answer):
            finding = self._close(gold, _scaled(gold.node, ours), _scaled(answer.node, theirs * scale))
            if finding[0] is Outcome.RIGHT:
                break
        return finding

    def _percent(self, gold: Quantity, answer: Quantity) -> list[tuple[Fraction, Fraction]]:
        """Factors of gold and answer under which they may be compared."""
        one, hundredth = Fraction(1), Fraction(1, 100)
        if gold.percent == answer.percent:
            return [(one, one)]
        if gold.percent:
            return [(one, one), (hundredth, one)] if self.policy.accept_percent else [(one, one)]
        size = real(gold.node)
        as_written = [(one, one)] if size is not None and (abs(size) >= 1 or not self.policy.accept_percent) else []
        return [*as_written, *([(one, hundredth)] if self.policy.accept_percent else [])]

    def _close(self, written: Quantity, gold: Node, answer: Node) -> Finding:
        finding = self.equal(gold, answer)
        if finding[0] is Outcome.RIGHT or self.policy.tolerance == "exact":
            return finding
        ours, theirs = real(gold), real(answer)
        if ours is None or theirs is None:
            return finding
        if self.policy.tolerance == "relative":
            return right_if(abs(ours - theirs) <= self.policy.relative * abs(ours), "tolerance")
        if not written.places:
            return finding
        half = 0.5 * 10.0**-written.places
        return right_if(abs(ours - theirs) <= half * (1 + 1e-9), "tolerance")


def _scaled(node: Node, factor: Fraction) -> Node:
    return node if factor == 1 else Call("mul", (node, Num(factor)))


def _angles(gold: Quantity, answer: Quantity) -> tuple[Node, Node] | None:
    """Degrees on one side, a multiple of pi on the other: both in radians."""
    sides = [(_is_degrees(one.unit), one.unit is None and Name("pi") in walk(one.node)) for one in (gold, answer)]
    if sides[0][0] and sides[1][1]:
        return Call("degree", (gold.node,)), answer.node
    if sides[1][0] and sides[0][1]:
        return gold.node, Call("degree", (answer.node,))
    return None


def _is_degrees(unit: Unit | None) -> bool:
    return unit is not None and unit.powers == (("angle", 1),)
