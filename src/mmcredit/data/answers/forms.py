"""Exact normal forms: sums of rational multiples of square roots and powers of names. Equal forms, equal values.

``2\\sqrt{3} x^2 - \\pi/2`` is {(3, x^2): 2, (1, pi): -1/2}. Bounded in size; what does not fit has no form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from mmcredit.data.answers.nodes import Name, Node, Num
from mmcredit.data.answers.roots import square_root, whole_root

Monomial = tuple[int, tuple[tuple[str, int], ...]]  # square-free radicand, powers of names
Form = dict[Monomial, Fraction]
ONE: Monomial = (1, ())
MOST_TERMS, MOST_BITS, LARGEST_POWER, LARGEST_POWER_OF_SUM, LARGEST_FACTORIAL = 128, 8192, 64, 20, 20


class NoForm(ValueError):
    """Not of this kind, or too large."""


def form(node: Node) -> Form:
    """The normal form of an expression.

    Raises:
        NoForm: it has none within the bounds.
    """
    if isinstance(node, Num):
        return _bounded({ONE: node.value})
    if isinstance(node, Name):
        if node.name == "oo":
            raise NoForm("infinity")
        return {(1, ((node.name, 1),)): Fraction(1)}
    if node.head not in _OPERATIONS:
        raise NoForm(node.head)
    return _bounded(_OPERATIONS[node.head](*[form(arg) for arg in node.args]))


def constant(found: Form) -> Fraction | None:
    """The value of a form without roots and names."""
    return found.get(ONE, Fraction(0)) if not found or set(found) == {ONE} else None


def rational(node: Node) -> Fraction | None:
    """The value of an expression that is a rational number."""
    try:
        return constant(form(node))
    except NoForm:
        return None


def _bounded(found: Form) -> Form:
    kept = {monomial: c for monomial, c in found.items() if c}
    if len(kept) > MOST_TERMS or any(_bits(c) > MOST_BITS for c in kept.values()):
        raise NoForm("too large")
    return kept


def _bits(number: Fraction) -> int:
    return number.numerator.bit_length() + number.denominator.bit_length()


def _add(a: Form, b: Form) -> Form:
    return {m: a.get(m, Fraction(0)) + b.get(m, Fraction(0)) for m in {**a, **b}}


def _times_number(a: Form, factor: Fraction | int) -> Form:
    return {m: c * factor for m, c in a.items()}


def _mul(a: Form, b: Form) -> Form:
    if len(a) * len(b) > 8 * MOST_TERMS:
        raise NoForm("too many terms")
    total: Form = {}
    for m, c in a.items():
        for n, d in b.items():
            monomial, factor = _times(m, n)
            total[monomial] = total.get(monomial, Fraction(0)) + c * d * factor
    return _bounded(total)


def _times(m: Monomial, n: Monomial) -> tuple[Monomial, int]:
    shared = math.gcd(m[0], n[0])
    powers = dict(m[1])
    for name, power in n[1]:
        powers[name] = powers.get(name, 0) + power
    if any(abs(power) > 16 * LARGEST_POWER for power in powers.values()):
        raise NoForm("power")
    turns = powers.pop("i", 0) % 4
    if turns % 2:
        powers["i"] = 1
    rest = tuple(sorted((name, power) for name, power in powers.items() if power))
    return (m[0] * n[0] // shared**2, rest), shared * (-1 if turns >= 2 else 1)


def _inverse(a: Form) -> Form:
    if len(a) == 2 and (conjugate := _conjugate(a)):
        return _mul(conjugate, _inverse(_mul(a, conjugate)))
    if len(a) != 1:
        raise NoForm("a sum below the line, or zero")
    ((root, names), c) = next(iter(a.items()))
    inverse = _times((1, tuple((name, -power) for name, power in names)), (root, ()))
    return {inverse[0]: inverse[1] / (c * root)}


def _conjugate(a: Form) -> Form | None:
    """Of a sum of two numbers with a square root: 1 + sqrt(2) -> 1 - sqrt(2)."""
    first, second = a
    if first[1] or second[1]:
        return None
    return {first: a[first], second: -a[second]}


def _pow(base: Form, exponent: Form) -> Form:
    power = _number(exponent)
    if power.denominator == 1:
        return _whole_power(base, power.numerator)
    return _whole_power(_root_of(base, power.denominator), power.numerator)


def _whole_power(base: Form, power: int) -> Form:
    largest = max((_bits(c) for c in base.values()), default=1)
    if abs(power) > (MOST_BITS // largest if len(base) <= 1 else LARGEST_POWER_OF_SUM):
        raise NoForm("power")
    if power < 0:
        return _whole_power(_inverse(base), -power)
    result: Form = {ONE: Fraction(1)}
    while power:
        if power & 1:
            result = _mul(result, base)
        power >>= 1
        base = _mul(base, base) if power else base
    return result


def _root(a: Form, index: Form) -> Form:
    degree = constant(index)
    if degree is None or degree.denominator != 1 or not 2 <= degree <= LARGEST_POWER:
        raise NoForm("root")
    number = constant(a)
    if degree % 2 and number is not None and number < 0:
        return _times_number(_root_of({ONE: -number}, int(degree)), -1)
    return _root_of(a, int(degree))


def _root_of(a: Form, degree: int) -> Form:
    number = _number(a)
    if degree == 2:
        return _square_root(number)
    if degree > LARGEST_POWER:  # before anything is raised to it
        raise NoForm("root")
    above, below = whole_root(number.numerator, degree), whole_root(number.denominator, degree)
    if number < 0 or above is None or below is None:
        raise NoForm("root")
    return {ONE: Fraction(above, below)}


def _square_root(number: Fraction) -> Form:
    if (found := square_root(number)) is None:
        raise NoForm("radicand")
    return {(found[1], (("i", 1),) if number < 0 else ()): found[0]}


def _number(a: Form) -> Fraction:
    number = constant(a)
    if number is None:
        raise NoForm("not a number")
    return number


def _factorial(a: Form) -> Form:
    if (number := _number(a)).denominator != 1 or not 0 <= number <= LARGEST_FACTORIAL:
        raise NoForm("factorial")
    return {ONE: Fraction(math.factorial(int(number)))}


def _binomial(a: Form, b: Form) -> Form:
    n, k = _number(a), _number(b)
    if n.denominator != 1 or k.denominator != 1 or not 0 <= k <= n <= LARGEST_POWER:
        raise NoForm("binomial")
    return {ONE: Fraction(math.comb(int(n), int(k)))}


_OPERATIONS: dict[str, Callable[..., Form]] = {
    "add": _add,
    "sub": lambda a, b: _add(a, _times_number(b, -1)),
    "neg": lambda a: _times_number(a, -1),
    "mul": _mul,
    "div": lambda a, b: _mul(a, _inverse(b)),
    "pow": _pow,
    "root": _root,
    "abs": lambda a: {ONE: abs(_number(a))},
    "factorial": _factorial,
    "binomial": _binomial,
    "percent": lambda a: _times_number(a, Fraction(1, 100)),
    "degree": lambda a: _mul(a, {(1, (("pi", 1),)): Fraction(1, 180)}),
}
