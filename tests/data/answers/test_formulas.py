"""Formulas against values computed by hand and by Python, exactly and in floating point."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from mmcredit.data.answers.forms import NoForm, form, rational
from mmcredit.data.answers.grammar import expression
from mmcredit.data.answers.nodes import Node, variables, walk
from mmcredit.data.answers.numeric import at_points, differ, real
from mmcredit.data.answers.tokens import NoFormula, tokenize


def tree(text: str) -> Node:
    return expression(tokenize(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1+2*3", 7),
        ("2-3-4", -5),
        ("-2^2", -4),
        ("(-2)^2", 4),
        ("2^3^2", 512),
        ("2^{-3}", Fraction(1, 8)),
        ("2^-3", Fraction(1, 8)),
        ("12/3/2", 2),
        ("1/2(4)", 2),
        (r"\frac12+\frac{1}{3}", Fraction(5, 6)),
        (r"\frac{1}{2}\cdot\frac34", Fraction(3, 8)),
        (r"2\frac{1}{2}", Fraction(5, 2)),
        (r"-2\frac{1}{2}", Fraction(-5, 2)),
        (r"2\frac{5}{2}", 5),
        (r"\sqrt{16}", 4),
        (r"\sqrt16", 4),
        (r"\sqrt[3]{-27}", -3),
        ("|3-5|", 2),
        ("|-2||-3|", 6),
        ("5!", 120),
        (r"\binom{5}{2}", 10),
        ("50%", Fraction(1, 2)),
        ("4^{1/2}", 2),
        ("2^{10}", 1024),
        ("[1+2](3)", 9),
        ("1e3", 1000),
        ("i^2", -1),
        (r"\frac{6}{\sqrt{9}}", 2),
        (r"(\sqrt2+\sqrt3)(\sqrt3-\sqrt2)", 1),
        (r"\frac{1}{\sqrt2-1}-\sqrt2", 1),
    ],
)
def test_rational_values(text: str, value: Fraction) -> None:
    assert rational(tree(text)) == value
    assert real(tree(text)) == pytest.approx(float(value), rel=1e-12)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("x(x+1)", "x^2+x", True),
        ("2xy", "y*x*2", True),
        ("(a+b)^3", "a^3+3a^2b+3ab^2+b^3", True),
        (r"\sqrt{8}x", r"2\sqrt2x", True),
        (r"\frac{x}{\sqrt{2}}", r"\frac{\sqrt2}{2}x", True),
        ("x_1+x_{2}", "x_2+x_1", True),
        ("x'", "x", False),
        ("x/2", "2/x", False),
        ("x^2", "2x", False),
        (r"\pi x", r"3.14159265358979x", False),
    ],
)
def test_forms_are_equal_exactly_where_values_are(one: str, other: str, same: bool) -> None:
    assert (form(tree(one)) == form(tree(other))) is same


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (r"\sin 2x\cos y", {"x", "y"}),
        (r"\alpha+β".replace("β", r"\beta"), {"alpha", "beta"}),
        ("abc", {"a", "b", "c"}),
        (r"2\pi r", {"r"}),
    ],
)
def test_variables(text: str, names: set[str]) -> None:
    assert variables(tree(text)) == names


BROKEN = [
    "",
    "+",
    "1+",
    "(1",
    "1)",
    "{1",
    "1 2",
    "2 x 3",
    "hello",
    "x^",
    r"\frac{1}",
    r"\sqrt",
    "1,2",
    "x=1",
    "@",
    "\x00",
    "²",
]
BROKEN += ["^2", "1..2", r"\foo", "factorial(9)", "__import__", "x.y", "(" * 60 + "1" + ")" * 60, "-" * 100 + "1", "|1"]


@pytest.mark.parametrize("text", BROKEN)
def test_broken_formulas_are_refused(text: str) -> None:
    with pytest.raises(NoFormula):
        tree(text)


@pytest.mark.parametrize(
    "text",
    [
        "9^{9^9}",
        "21!",
        r"\binom{99}{2}",
        "1/0",
        "0^{-1}",
        r"\sqrt[99]{2}",
        "2^{1/99999}",
        "(x+y)^{99}",
        "x^x",
        r"\sin x",
        r"1/(x+1)",
    ],
)
def test_what_is_too_large_or_of_another_kind_has_no_form(text: str) -> None:
    with pytest.raises(NoForm):
        form(tree(text))


def random_formula(rng: random.Random, depth: int) -> str:
    """In a grammar that Python reads as well."""
    if depth == 0:
        return rng.choice(["x", "y", str(rng.randint(1, 9)), f"{rng.randint(1, 9)}/{rng.randint(1, 9)}"])
    left, right = random_formula(rng, depth - 1), random_formula(rng, depth - 1)
    return rng.choice([f"({left}+{right})", f"({left}-{right})", f"({left})*({right})", f"(-{left})", f"({left})**2"])


@pytest.mark.parametrize("seed", range(4))
def test_random_polynomials_against_direct_evaluation(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        text = random_formula(rng, 3)
        node, x, y = tree(text), Fraction(rng.randint(-9, 9), 7), Fraction(rng.randint(-9, 9), 5)
        value = evaluate(text, x, y)
        terms = form(node)
        total = sum(
            (c * x ** dict(names).get("x", 0) * y ** dict(names).get("y", 0) for (_, names), c in terms.items())
        )
        assert total == value
        assert differ(node, tree(f"({text})+1")) is True and differ(node, tree(f"1*({text})")) is False
        assert len(walk(node)) > 0 and None not in at_points(node, ["x", "y"])


def evaluate(text: str, x: Fraction, y: Fraction) -> Fraction:
    """By Python's own syntax tree."""
    import ast
    import operator

    operators = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}

    def value(node: ast.expr) -> Fraction:
        match node:
            case ast.BinOp(left, ast.Pow(), ast.Constant(power)):
                return value(left) ** power
            case ast.BinOp(left, operation, right):
                return operators[type(operation)](value(left), value(right))
            case ast.UnaryOp(ast.USub(), inner):
                return -value(inner)
            case ast.Name(name):
                return {"x": x, "y": y}[name]
            case ast.Constant(number):
                return Fraction(number)
        raise AssertionError(node)

    return value(ast.parse(text, mode="eval").body)
