"""The scale: signed, monotone, readable, and told apart without red-green vision."""

from __future__ import annotations

import pytest

from mmcredit.reporting.colours import ARMS, LEVELS, colour, hexadecimal, ink, level

SHADES = range(-LEVELS, LEVELS + 1)
# linear RGB as a deuteranope sees it (Machado et al. 2009, severity 1)
DEUTERANOPIA = ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881))


def linear(rgb):
    return [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]


def luminance(rgb):
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear(rgb), strict=True))


def test_levels_are_odd_and_only_zero_is_white():
    assert level(0.0, 2.0) == 0
    assert level(1e-9, 2.0) == 1 and level(-1e-9, 2.0) == -1
    assert [level(v, 2.0) for v in (2.0, 1.0, -1.0, 5.0, -5.0)] == [10, 5, -5, 10, -10]


def test_shades_darken_away_from_zero_on_both_sides():
    for side in (1, -1):
        bright = [luminance(colour(side * n)) for n in range(LEVELS + 1)]
        assert bright == sorted(bright, reverse=True) and len(set(bright)) == len(bright)


@pytest.mark.parametrize("shade", SHADES)
def test_text_on_a_shade_has_contrast_of_at_least_4_5(shade):
    pair = sorted([luminance(colour(shade)), luminance(ink(colour(shade)))])
    assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5


@pytest.mark.parametrize("n", range(2, LEVELS + 1))
def test_signs_differ_for_a_deuteranope(n):
    seen = [[sum(w * c for w, c in zip(row, linear(colour(s)), strict=True)) for row in DEUTERANOPIA] for s in (n, -n)]
    (blue_red, blue_blue), (red_red, red_blue) = ((rgb[0], rgb[2]) for rgb in seen)
    assert blue_blue > blue_red and red_blue < red_red


def test_hexadecimal():
    assert hexadecimal((0, 128, 255)) == "#0080ff" and len(set(ARMS)) == len(ARMS)
