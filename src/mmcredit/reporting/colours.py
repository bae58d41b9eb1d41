"""Signed numbers as colours that colour-blind readers tell apart: blue is positive, red negative, white nothing."""

from __future__ import annotations

LEVELS = 10  # shades on each side of 0
_NEGATIVE = ((247, 247, 247), (253, 219, 199), (244, 165, 130), (214, 96, 77), (178, 24, 43), (103, 0, 31))
_POSITIVE = ((247, 247, 247), (209, 229, 240), (146, 197, 222), (67, 147, 195), (33, 102, 172), (5, 48, 97))
# ColorBrewer's RdBu, https://colorbrewer2.org/#type=diverging&scheme=RdBu&n=11

ARMS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
# Okabe and Ito's palette, for lines of different runs

Colour = tuple[int, int, int]  # 0..255


def level(value: float, scale: float) -> int:
    """Shade of a value, -LEVELS..LEVELS; only 0 itself gets shade 0. ``scale``: the largest absolute value, above 0."""
    if not value:
        return 0
    steps = max(1, min(LEVELS, round(abs(value) / scale * LEVELS)))
    return steps if value > 0 else -steps


def colour(shade: int) -> Colour:
    """Of a shade, along the scale."""
    stops = _POSITIVE if shade > 0 else _NEGATIVE
    place = abs(shade) / LEVELS * (len(stops) - 1)
    low = min(int(place), len(stops) - 2)
    first, second = stops[low], stops[low + 1]
    red, green, blue = (round(a + (b - a) * (place - low)) for a, b in zip(first, second, strict=True))
    return red, green, blue


def ink(background: Colour) -> Colour:
    """Black or white, whichever has the larger contrast on a background (WCAG relative luminance)."""
    linear = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in background]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return (0, 0, 0) if luminance > 0.179 else (255, 255, 255)


def hexadecimal(rgb: Colour) -> str:
    """``#rrggbb``."""
    return "#" + "".join(f"{c:02x}" for c in rgb)
