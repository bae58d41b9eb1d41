"""Expressions in floating point at fixed points: two that differ there are different."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable

from mmcredit.data.answers.nodes import Name, Node, Num, has, variables, walk

TOLERANCE = 1e-8  # relative
MOST_NODES = 300
_POINTS = (0.7316, 1.2379, -0.5813, 2.6127, -1.7391)


def at_points(node: Node, names: list[str]) -> list[complex | None]:
    """Values at fixed points; None where there is none, or none that a float holds."""
    points = _POINTS if names else _POINTS[:1]
    if len(walk(node)) > MOST_NODES:
        return [None] * len(points)
    found = []
    for i in range(len(points)):
        shifted = {name: _POINTS[(i + j) % len(_POINTS)] + 0.0917 * (j // len(_POINTS)) for j, name in enumerate(names)}
        found.append(_value(node, {name: complex(x) for name, x in shifted.items()}))
    return found


def differ(a: Node, b: Node) -> bool | None:
    """True if the expressions differ at a point where both are defined, None if there is none of those."""
    names = sorted(variables(a) | variables(b))
    imaginary = any(one == Name("i") for one in [*walk(a), *walk(b)])
    compared = 0
    for x, y in zip(at_points(a, names), at_points(b, names), strict=True):
        if x is None or y is None or (not imaginary and max(_imaginary(x), _imaginary(y)) > TOLERANCE):
            continue
        compared += 1
        if abs(x - y) > TOLERANCE * max(abs(x), abs(y), 1e-30):
            return True
    return False if compared else None


def real(node: Node) -> float | None:
    """The value of an expression without variables, if it is a real number that a float holds."""
    if variables(node) or has(node, "pm"):
        return None
    found = at_points(node, [])[0]
    return None if found is None or _imaginary(found) > TOLERANCE else found.real


def _imaginary(value: complex) -> float:
    return abs(value.imag) / max(abs(value), 1e-30)


def _value(node: Node, env: dict[str, complex]) -> complex | None:
    try:
        found = _evaluate(node, env)
    except (ArithmeticError, ValueError):
        return None
    return found if cmath.isfinite(found) else None


def _evaluate(node: Node, env: dict[str, complex]) -> complex:
    if isinstance(node, Num):
        return complex(float(node.value))
    if isinstance(node, Name):
        return env[node.name] if node.name in env else _CONSTANTS[node.name]
    if node.head not in _FUNCTIONS:
        raise ValueError(node.head)
    return complex(_FUNCTIONS[node.head](*[_evaluate(arg, env) for arg in node.args]))


def _root(x: complex, n: complex) -> complex:
    odd = n.imag == 0 and n.real % 2 == 1
    return -((-x) ** (1 / n)) if odd and x.imag == 0 and x.real < 0 else x ** (1 / n)


def _factorial(x: complex) -> complex:
    if x.imag or x.real % 1 or not 0 <= x.real <= 20:
        raise ValueError("factorial")
    return complex(math.factorial(int(x.real)))


def _binomial(n: complex, k: complex) -> complex:
    if n.imag or k.imag or n.real % 1 or k.real % 1 or not 0 <= k.real <= n.real <= 64:
        raise ValueError("binomial")
    return complex(math.comb(int(n.real), int(k.real)))


_CONSTANTS = {"pi": complex(math.pi), "e": complex(math.e), "i": 1j, "oo": complex(math.inf)}
_FUNCTIONS: dict[str, Callable[..., complex]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "pow": lambda a, b: a**b,
    "root": _root,
    "abs": abs,
    "percent": lambda a: a / 100,
    "degree": lambda a: a * math.pi / 180,
    "factorial": _factorial,
    "binomial": _binomial,
    "sin": cmath.sin,
    "cos": cmath.cos,
    "tan": cmath.tan,
    "cot": lambda a: 1 / cmath.tan(a),
    "sec": lambda a: 1 / cmath.cos(a),
    "csc": lambda a: 1 / cmath.sin(a),
    "arcsin": cmath.asin,
    "arccos": cmath.acos,
    "arctan": cmath.atan,
    "sinh": cmath.sinh,
    "cosh": cmath.cosh,
    "tanh": cmath.tanh,
    "ln": cmath.log,
    "log": cmath.log,
    "lg": cmath.log10,
    "logarithm": lambda a, b: cmath.log(a) / cmath.log(b),
}
