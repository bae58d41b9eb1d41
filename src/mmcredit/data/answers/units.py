"""Units behind (or a currency before) a number: what is measured, and how large the unit is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from mmcredit.data.answers.numerals import SCALES, in_words

Powers = tuple[tuple[str, int], ...]  # of base dimensions, sorted


@dataclass(frozen=True, slots=True)
class Unit:
    """``km/h``: powers (("length", 1), ("time", -1)), factor 5/18."""

    powers: Powers
    factor: Fraction


def _scaled(dimension: str, **names: object) -> dict[str, tuple[dict[str, int], Fraction]]:
    pairs = ((name, Fraction(str(size))) for name, size in names.items())
    return {name: ({dimension: 1}, size) for name, size in pairs}


_KNOWN = _scaled("length", m=1, meter=1, metre=1, km=1000, kilometer=1000, kilometre=1000, cm="0.01", mm="0.001")
_KNOWN |= _scaled("length", centimeter="0.01", centimetre="0.01", millimeter="0.001", millimetre="0.001", dm="0.1")
_KNOWN |= _scaled("length", decimeter="0.1", nm="1e-9", nanometer="1e-9", um="1e-6", micrometer="1e-6", mi="1609.344")
_KNOWN |= _scaled("length", mile="1609.344", ft="0.3048", foot="0.3048", feet="0.3048", inch="0.0254", inches="0.0254")
_KNOWN |= _scaled("length", yd="0.9144", yard="0.9144", **{"in": "0.0254"})
_KNOWN |= _scaled("mass", kg=1, kilogram=1, g="0.001", gram="0.001", mg="1e-6", milligram="1e-6", ton=1000, tonne=1000)
_KNOWN |= _scaled(
    "mass", lb="0.45359237", lbs="0.45359237", pound="0.45359237", oz="0.028349523125", ounce="0.028349523125"
)
_KNOWN |= _scaled("time", s=1, sec=1, second=1, min=60, minute=60, h=3600, hr=3600, hour=3600, day=86400, week=604800)
_KNOWN |= _scaled("time", ms="0.001", millisecond="0.001") | _scaled("month", month=1, year=12, yr=12)
_KNOWN |= _scaled("dollar", dollar=1, usd=1, cent="0.01", cents="0.01", **{"$": 1})
_KNOWN |= _scaled("euro", euro=1, eur=1, **{"€": 1}) | _scaled("gbp", gbp=1, **{"£": 1})
_KNOWN |= _scaled("yuan", yuan=1, rmb=1, cny=1, **{"¥": 1}) | _scaled("rupee", rupee=1, **{"₹": 1})
_KNOWN |= _scaled("angle", degree=1, deg=1, **{"°": 1}) | _scaled("radian", rad=1, radian=1)
_KNOWN |= _scaled("celsius", celsius=1, **{"°C": 1}) | _scaled("fahrenheit", fahrenheit=1, **{"°F": 1})
_KNOWN |= _scaled("bit", bit=1, byte=8) | _scaled("amount", mol=1, mole=1) | _scaled("kelvin", kelvin=1, K=1)
_KNOWN |= _scaled("current", A=1, amp=1, ampere=1, mA="0.001") | _scaled("sound", dB=1)
_KNOWN |= _scaled("unit", unit=1) | _scaled("pixel", px=1, pixel=1)
for _names, _factors, _powers in (
    (
        {"l": 1, "L": 1, "liter": 1, "litre": 1, "ml": "0.001", "mL": "0.001", "milliliter": "0.001"},
        "0.001",
        {"length": 3},
    ),
    ({"ha": 1, "hectare": 1}, "10000", {"length": 2}),
    ({"mph": 1}, "0.44704", {"length": 1, "time": -1}),
    ({"kph": 1, "kmh": 1}, Fraction(5, 18), {"length": 1, "time": -1}),
    ({"N": 1, "newton": 1, "kN": 1000}, 1, {"mass": 1, "length": 1, "time": -2}),
    ({"J": 1, "joule": 1, "kJ": 1000}, 1, {"mass": 1, "length": 2, "time": -2}),
    ({"W": 1, "watt": 1, "kW": 1000}, 1, {"mass": 1, "length": 2, "time": -3}),
    ({"Pa": 1, "pascal": 1, "kPa": 1000}, 1, {"mass": 1, "length": -1, "time": -2}),
    ({"Hz": 1, "hertz": 1, "kHz": 1000, "MHz": 10**6}, 1, {"time": -1}),
    ({"V": 1, "volt": 1, "mV": "0.001", "kV": 1000}, 1, {"mass": 1, "length": 2, "time": -3, "current": -1}),
    ({"Ω": 1, "ohm": 1}, 1, {"mass": 1, "length": 2, "time": -3, "current": -2}),
    ({"C": 1, "coulomb": 1}, 1, {"current": 1, "time": 1}),
):
    _KNOWN |= {name: (_powers, Fraction(str(n)) * Fraction(str(_factors))) for name, n in _names.items()}

_NO_UNIT = "or and not no is are was to the but maybe than if then plus minus times thousand million billion trillion "
_NO_UNIT += (
    "hundred dozen hundreds dozens thousands millions billions trillions half halves third thirds fifth "
    "fifths tenth tenths hundredth hundredths thousandth thousandths doubled tripled factorial infinity "
    "point sqrt sin cos tan cot sec csc log ln lg exp pi theta alpha beta choice option answer"
)
_NO_UNITS = frozenset(_NO_UNIT.split())
_POWER = {"square": 2, "sq": 2, "cubic": 3, "cu": 3, "squared": 2, "cubed": 3}
_DIGITS = re.compile(r"[\d.,]*")
_PREFIX = re.compile(r"^([-+]?)\s*(US\$|USD|EUR|GBP|CNY|RMB|[$€£¥₹])\s*(?=[\d.])")
_START = re.compile(r"(?<![A-Za-z\\])(?:°\s?[CF](?![A-Za-z])|[A-Za-zµμΩ]{1,20}|[°€£¥$Ω])")
_TERM = re.compile(
    r"\s*(/|per(?![A-Za-z])|\*|\\cdot(?![A-Za-z]))?\s*(°\s?[CF](?![A-Za-z])|[A-Za-zµΩ]{1,20}|[°€£¥$])\.?"
    r"(?:\s*\^\s*(?:\{\s*(-?\d)\s*\}|(-?\d)))?"
)
_NUMBER_ENDS = (*"0123456789.})%°", "\\pi", *(f" {scale}" for scale in SCALES))
_TRIGONOMETRY = re.compile("sin|cos|tan|cot|sec|csc")
MOST_WORDS = 4


def split(text: str) -> tuple[str, Unit | None]:
    """A text and the unit at its end (or currency at its start); None where there is none."""
    if found := _PREFIX.match(text):
        sign, rest = found[2].removeprefix("US") if found[2] == "US$" else found[2], text[found.end() :]
        number, behind = rest[: (end := _DIGITS.match(rest).end())], rest[end:]  # type: ignore[union-attr]
        each = unit(f"{sign}{behind}") if behind.lstrip().startswith(("/", "per ")) else unit(behind) and unit(sign)
        return (found[1] + number, each) if each else (found[1] + rest, unit(sign))
    for m in _START.finditer(text):
        before = text[: m.start()].rstrip()
        if not before.endswith(_NUMBER_ENDS):
            continue
        glued = m[0].isalpha() and m.start() == len(before)  # 5m and 2abc are products, 5cm is not
        if glued and (len(m[0]) == 1 or _measure(m[0]) is None):
            continue
        if m[0] == "°" and "°" in before and "," in before:
            return text, None  # 60°,120°
        if (found_unit := unit(text[m.start() :])) and not (m[0] == "°" and _TRIGONOMETRY.search(before)):
            return before.replace("°", "") if m[0] == "°" else before, found_unit
    return text, None


def unit(text: str) -> Unit | None:
    """Units with powers, ``*``, ``/`` and ``per``; a word that is unknown is a dimension of its own."""
    powers: dict[str, int] = {}
    factor, at, words, raised = Fraction(1), 0, 0, 1
    while at < len(text.rstrip()):
        m = _TERM.match(text, at)
        if m is None or words == MOST_WORDS:
            return None
        at, words = m.end(), words + 1
        if m[2] in _POWER:
            if m[2] in ("squared", "cubed") and at == len(text.rstrip()):
                return None  # 7 squared
            raised = _POWER[m[2]]
            continue
        known = _look_up(m[2])
        if known is None:
            return None
        power = int(m[3] or m[4] or raised) * (-1 if m[1] in ("/", "per") else 1)
        raised, after = 1, re.compile(r"\s*(squared|cubed)(?![A-Za-z])").match(text, at)
        if after:
            power, at = power * _POWER[after[1]], after.end()
        factor *= known[1] ** power
        for name, one in known[0].items():
            powers[name] = powers.get(name, 0) + one * power
    return Unit(tuple(sorted((n, p) for n, p in powers.items() if p)), factor) if words else None


def _look_up(word: str) -> tuple[dict[str, int], Fraction] | None:
    low = word.lower()
    if known := _measure(word):
        return known
    if len(low) < 3 or low in _NO_UNITS or not low.isalpha() or in_words(low) is not None:
        return None
    return {low.removesuffix("s"): 1}, Fraction(1)


def _measure(word: str) -> tuple[dict[str, int], Fraction] | None:
    word = word.replace(" ", "").replace("µ", "u").replace("μ", "u")
    low = word.lower() if len(word) > 1 else word  # 7 M are millions rather than metres
    names = (word, low, low.removesuffix("s"), low.removesuffix("es"))
    return next((_KNOWN[name] for name in names if name in _KNOWN), None)


def agree(gold: Unit | None, answer: Unit | None) -> Fraction | None:
    """By what the answer's number is multiplied to be compared with the gold's; None: other things are measured.

    A missing unit agrees with any, degrees without a scale agree with degrees Celsius and Fahrenheit.
    """
    if gold is None or answer is None:
        return Fraction(1)
    if gold.powers == answer.powers:
        return answer.factor / gold.factor
    pair = {gold.powers, answer.powers}
    degrees = (("angle", 1),)
    temperatures = {(("celsius", 1),), (("fahrenheit", 1),)}
    return Fraction(1) if degrees in pair and pair & temperatures else None
