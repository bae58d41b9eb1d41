from __future__ import annotations

from fractions import Fraction

import pytest

from mmcredit.data.answers.units import agree, split, unit


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5 cm", "5"),
        ("5cm", "5"),
        ("5 cm^2", "5"),
        ("12\\pi cm", "12\\pi"),
        ("\\frac{1}{2} m/s^{2}", "\\frac{1}{2}"),
        ("60°", "60"),
        ("25°C", "25"),
        ("$5", "5"),
        ("-€5", "-5"),
        ("3 apples", "3"),
        ("9.8 N/kg", "9.8"),
    ],
)
def test_units_are_split_off(text: str, number: str) -> None:
    before, found = split(text)
    assert before == number and found is not None


@pytest.mark.parametrize(
    "text", ["5", "5x", "5m", "2abc", "5 or 6", "5 not", "5 million", "\\sin 30°", "x", "cm", "5 xy", "5!"]
)
def test_what_is_no_unit_stays(text: str) -> None:
    assert split(text) == (text, None)


@pytest.mark.parametrize(
    ("gold", "answer", "factor"),
    [
        ("cm", "mm", Fraction(1, 10)),
        ("km/h", "m/s", Fraction(18, 5)),
        ("m^2", "square meters", Fraction(1)),
        ("m/s^2", "meters per second squared", Fraction(1)),
        ("hours", "min", Fraction(1, 60)),
        ("N", "kg*m/s^2", Fraction(1)),
        ("l", "cm^3", Fraction(1, 1000)),
        ("dollars", "cents", Fraction(1, 100)),
        ("apples", "apple", Fraction(1)),
        ("cm", "cm^2", None),
        ("cm", "s", None),
        ("apples", "pears", None),
        ("°C", "°F", None),
    ],
)
def test_conversion(gold: str, answer: str, factor: Fraction | None) -> None:
    one, other = unit(gold), unit(answer)
    assert one is not None and other is not None and agree(one, other) == factor
    assert agree(None, other) == agree(one, None) == 1
