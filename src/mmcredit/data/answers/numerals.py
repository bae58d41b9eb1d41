"""Numbers written in digits or words, exactly."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction

_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
)
_SMALL = {word: n for n, word in enumerate([*_ONES.split(), "eighteen", "nineteen"])}
_TENS = {
    word: 10 * n
    for n, word in enumerate(["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], 2)
}
SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12, "dozen": 12}
_PARTS = {"half": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10}
_PARTS |= {word + "s": n for word, n in _PARTS.items()} | {"halves": 2}
_ORDINALS = [
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
]

_E = r"(?:[eE][-+]?\d{1,3}(?![\d.A-Za-z]))?"
GROUPED = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d.])(?!,\d)|\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?(?!,?\d)"  # also 12,34,567
_MANY_DOTS = r"\d{1,3}(?:\.\d{3}){2,}(?:,\d+)?(?![\d.])|\d{1,3}(?:\.\d{3})+,\d+(?![\d.,])"  # 1.234.567  1.234,5
_APOSTROPHE = r"\d{1,3}(?:'\d{3})+(?:\.\d+)?(?!\d)"
PLAIN = rf"(?:\d+(?:\.\d*)?|\.\d+){_E}"
NUMERAL = re.compile(rf"{_MANY_DOTS}|{_APOSTROPHE}|(?:{GROUPED}){_E}|{PLAIN}")
WITHOUT_COMMA = re.compile(rf"{_APOSTROPHE}|{PLAIN}")  # inside brackets, where a comma separates
_SIGNED = re.compile(rf"([-+]?)\s?({NUMERAL.pattern})")
_DECIMAL_COMMA = re.compile(r"([-+]?)(\d+),(\d+)")
_LATEX_COMMA = re.compile(r"(\d+(?:\{,\}\d+)+)")
_SPACED = re.compile(r"(?<![\d.,/])(\d{1,3}(?: \d{3})+)(?![\d/]| ?\d)")
_REPEATING = re.compile(r"(\d*)\.(\d*)\\(?:overline|bar|dot)\s*\{(\d+)\}")
_MIXED = re.compile(r"(?<![\d.,/^}_])(\d+) (\d+) ?/ ?(\d+)(?![\d.])")


def value(literal: str) -> Fraction | None:
    """Exact value of a numeral without sign, thousands separators in any of their styles included."""
    if literal.count(".") > 1 or re.fullmatch(_MANY_DOTS, literal):
        literal = literal.replace(".", "").replace(",", ".")
    try:
        return Fraction(Decimal(literal.replace(",", "").replace("'", "")))
    except (InvalidOperation, ValueError, OverflowError):
        return None


def numeral(text: str) -> Fraction | None:
    """Value of a text that is a signed numeral and nothing else."""
    found = _SIGNED.fullmatch(text)
    number = value(found[2]) if found else None
    return -number if found and number is not None and found[1] == "-" else number


def decimal_comma(text: str) -> Fraction | None:
    """``0,5`` as a German or a Frenchman reads it."""
    found = _DECIMAL_COMMA.fullmatch(text.replace(" ", ""))
    number = value(f"{found[2]}.{found[3]}") if found else None
    return -number if found and number is not None and found[1] == "-" else number


def places(text: str) -> int | None:
    """Decimal places of a plain decimal numeral: ``0.50`` has 2, ``7`` has 0; None for any other writing."""
    found = re.fullmatch(r"[-+]?(?:[\d,]+(?:\.(\d*))?|\.(\d+))", text.replace(" ", ""))
    return len(found[1] or found[2] or "") if found else None


def plain_numerals(text: str) -> str:
    """``3{,}000``, ``3 000``, ``2 1/2`` and ``0.\\overline{3}`` in writings without braces and spaces."""
    text = _LATEX_COMMA.sub(_latex_comma, text)
    text = _SPACED.sub(lambda m: m[1].replace(" ", ""), text)
    text = _REPEATING.sub(_repeating, text)
    return _MIXED.sub(r"(\1+\2/\3)", text)


def _latex_comma(found: re.Match[str]) -> str:
    parts = found[1].split("{,}")
    thousands = len(parts[0]) <= 3 and parts[0] != "0" and all(len(part) == 3 for part in parts[1:])
    return "".join(parts) if thousands else ".".join(parts)


def _repeating(found: re.Match[str]) -> str:
    whole, fixed, again = found[1] or "0", found[2], found[3]
    if len(fixed + again + whole) > 30:
        return found[0]
    denominator = "9" * len(again) + "0" * len(fixed)
    return f"({int(whole + fixed + again) - int(whole + fixed)}/{denominator})"


def in_words(text: str) -> Fraction | None:
    """``twenty-one``, ``minus three``, ``two and a half``, ``three quarters``, ``third`` and ``3rd`` are no numbers."""
    words = text.casefold().replace("-", " ").split()
    if not words or len(words) > 12:
        return None
    if words[0] in ("minus", "negative"):
        rest = _words(words[1:])
        return None if rest is None else -rest
    return _words(words)


def _words(words: list[str]) -> Fraction | None:
    if len(words) > 1 and words[-1] in _PARTS:
        whole, part = Fraction(0), words[:-1]
        if "and" in words:
            cut = len(words) - 1 - words[::-1].index("and")
            before = _count(words[:cut])
            whole, part = (before or Fraction(0)), words[cut + 1 : -1]
            if before is None:
                return None
        count = Fraction(1) if part in ([], ["a"], ["one"]) else _count(part)
        return None if count is None else whole + count / _PARTS[words[-1]]
    return Fraction(1, 2) if words == ["half"] else _count(words)


def _count(words: list[str]) -> Fraction | None:
    """A whole number in words."""
    total, part, last = Fraction(0), Fraction(0), 10**15
    if words[:1] == ["a"] and len(words) > 1 and words[1] in SCALES:
        words = ["one", *words[1:]]
    if not words or words[0] in ("and", *SCALES):
        return None
    for word in words:
        if word in _SMALL and (part % 100 == 0 or (part % 10 == 0 and part % 100 > 10 and 0 < _SMALL[word] < 10)):
            part += _SMALL[word]
        elif word in _TENS and part % 100 == 0:
            part += _TENS[word]
        elif word in ("hundred", "dozen") and 0 < part < 100:
            part *= SCALES[word]
        elif word in SCALES and part and last > SCALES[word] > 100:
            total, part, last = total + part * SCALES[word], Fraction(0), SCALES[word]
        elif word != "and" or not (part or total):
            return None
    return None if words[-1] == "and" else total + part
