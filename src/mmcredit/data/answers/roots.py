"""Whole roots of whole numbers."""

from __future__ import annotations

import math
from fractions import Fraction

LARGEST_RADICAND, MOST_ROOT_BITS = 10**10, 1000


def whole_root(number: int, degree: int) -> int | None:
    """The root, if it is a whole number."""
    if number.bit_length() > MOST_ROOT_BITS or number < 0:
        return None
    near = round(number ** (1 / degree))
    return next((n for n in (near - 1, near, near + 1) if n >= 0 and n**degree == number), None)


def square_root(number: Fraction) -> tuple[Fraction, int] | None:
    """``sqrt(|number|)`` as a rational multiple of the root of a square-free number; None where that takes too long."""
    radicand = abs(number.numerator * number.denominator)
    outside = math.isqrt(radicand)
    if outside**2 == radicand:
        return Fraction(outside, number.denominator), 1
    if radicand > LARGEST_RADICAND:
        return None
    outside, radicand = _square_part(radicand)
    return Fraction(outside, number.denominator), radicand


def _square_part(radicand: int) -> tuple[int, int]:
    """The largest d with d^2 a divisor, and what is left: 12 -> 2, 3."""
    outside, kept, d = 1, 1, 2
    while d**3 <= radicand:
        while radicand % d**2 == 0:
            radicand, outside = radicand // d**2, outside * d
        if radicand % d == 0:
            radicand, kept = radicand // d, kept * d
        d += 1
    whole = math.isqrt(radicand)  # left: one prime, two, or the square of one
    return (outside * whole, kept) if whole**2 == radicand else (outside, kept * radicand)
