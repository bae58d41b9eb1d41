"""Whether two formulas are equal, by SymPy. Runs in a worker: see ``workers.py``.

SymPy objects are built from a tree of known operations; no text is ever given to SymPy, whose parser evaluates it.
"""

from __future__ import annotations

from typing import Any

import sympy

DIGITS = 40
_NAMES = {"pi": sympy.pi, "e": sympy.E, "i": sympy.I}
_POINTS = ("0.731", "1.257", "-0.583", "2.611", "-1.739", "0.137", "-3.391", "4.853")


def equal(gold: list[Any], answer: list[Any]) -> bool:
    """Whether two packed trees (``nodes.packed``) have the same value wherever both are defined.

    They agree in 28 digits at eight points (variables are real); where none is defined, they are equal when expanded.
    """
    sides = _built(gold), _built(answer)
    names = sorted(sides[0].free_symbols | sides[1].free_symbols, key=str)
    compared = 0
    for i in range(len(_POINTS) if names else 1):
        point = {name: sympy.Rational(_POINTS[(i + 3 * j) % len(_POINTS)]) + j for j, name in enumerate(names)}
        values = [side.subs(point).evalf(DIGITS, maxn=200) for side in sides]
        if not all(value.is_number and value.is_finite for value in values):
            continue
        imaginary = _imaginary(values)
        if imaginary and names and not any(side.has(sympy.I) for side in sides):
            continue
        compared += 1
        if abs(values[0] - values[1]) > sympy.Float(10) ** -(DIGITS - 12) * max(1, abs(values[0])):
            return False
    return compared > 0 or sympy.expand(sides[0] - sides[1]) == 0


def _imaginary(values: list[Any]) -> bool:
    return any(abs(sympy.im(value)) > sympy.Float("1e-20") for value in values)


def _built(tree: list[Any]) -> Any:
    head, *args = tree
    if head == "num":
        return sympy.Rational(args[0])
    if head == "name":
        return _NAMES.get(args[0]) or sympy.Symbol(args[0], real=True)
    return _OPERATIONS[head](*map(_built, args))


_OPERATIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "pow": lambda a, b: a**b,
    "root": lambda a, n: sympy.real_root(a, n) if n.is_odd and a.is_real else a ** (1 / n),
    "abs": sympy.Abs,
    "percent": lambda a: a / 100,
    "degree": lambda a: a * sympy.pi / 180,
    "sin": sympy.sin,
    "cos": sympy.cos,
    "tan": sympy.tan,
    "cot": sympy.cot,
    "sec": sympy.sec,
    "csc": sympy.csc,
    "arcsin": sympy.asin,
    "arccos": sympy.acos,
    "arctan": sympy.atan,
    "sinh": sympy.sinh,
    "cosh": sympy.cosh,
    "tanh": sympy.tanh,
    "ln": sympy.log,
    "log": sympy.log,
    "lg": lambda a: sympy.log(a, 10),
    "logarithm": sympy.log,
}
