"""Writings of an answer made alike: Unicode signs, LaTeX wrappers, spacing. Every pass is linear."""

from __future__ import annotations

import re
import unicodedata

_SIGNS = {
    "\\times ": "×✕✖",
    "\\cdot ": "·⋅∙",
    "/": "÷⁄∕",
    "-": "−–—‐‑‒﹣",
    "\\infty ": "∞",
    "\\sqrt ": "√",
    "\\le ": "≤⩽≦",
    "\\ge ": "≥⩾≧",
    "\\ne ": "≠",
    "\\approx ": "≈",
    "\\pm ": "±",
    "\\cup ": "∪",
    "\\in ": "∈",
    "\\emptyset ": "∅",
    "\\circ ": "∘",
    "°": "º˚",
    "'": "′’‘",
    '"': "“”",
    "\\parallel ": "∥",
    "\\perp ": "⊥",
    ",": "、",
    ".": "。",
    ":": "∶",
    "[": "【",
    "]": "】",
    "<": "〈",
    ">": "〉",
    "": "\u200b\u200c\u200d\u2060\ufeff∠△",
    " ": "\u00a0\u202f\u2009",
}
_GREEK = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho _ sigma tau upsilon"
_TABLE = {ord(c): sign for sign, chars in _SIGNS.items() for c in chars}
_TABLE |= {ord("α") + i: f"\\{name} " for i, name in enumerate([*_GREEK.split(), "phi", "chi", "psi", "omega"])}
_RAISED = {ord(c): p for c, p in zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿˣ", "0123456789+-nx", strict=True)}
_LOWERED = {ord(c): p for c, p in zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True)}
_SCRIPTS = re.compile("([⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿˣ]+)|([₀₁₂₃₄₅₆₇₈₉]+)")
_CIRCLED = re.compile("[①-⑨]")
_VULGAR = re.compile("[¼-¾⅐-⅞]")

WRAPPERS = {
    *("text", "textbf", "textit", "textrm", "textsf", "texttt", "textnormal", "emph", "mathrm", "mathbf", "mathit"),
    *("mathsf", "mathtt", "mathbb", "mathcal", "mbox", "hbox", "operatorname", "boldsymbol", "bm", "boxed", "fbox"),
    *("underline", "vec", "overrightarrow", "hat", "widehat", "ensuremath", "displaylines", "unit", "si", "ce"),
}
_REPEATING = r"\\(?:overline|bar|dot)\s*\{(?!\d)"  # of letters: a segment; of digits: a repeating decimal
_DROPPED = re.compile(
    r"\\(?:left|right)\s*\.|\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|limits|[lL]arge|LARGE|[hH]uge|small|normalsize|angle|triangle|bf|rm|it)(?![A-Za-z])"
    r"|\\(?:text)?color\s*\{[^{}]*\}|(?<!\\)\\[!()\[\]]|(?<!\\)\$"
)
_SPACE = re.compile(r"(?<!\\)\\[,;:> \n]|~|\\q?quad(?![A-Za-z])")
_COMMAND = re.compile(r"\\([A-Za-z]+)\s*(?=\{)|\\.|[{}]", re.DOTALL)
_ESCAPED = re.compile(r"\\([%$#&_])")
_TIMES = re.compile(r"(?<=\d)\s*[xX]\s*(?=10\s*\^)")
_DOLLARS = re.compile(r"^(\s*[-+]?(?:US)?)\$(?=\s*[-+]?[\d.][^$]*$)")  # $5, not the $5$ of a formula
_LEADING = re.compile(r"^(?:=|\\approx(?![A-Za-z]))\s*(?=\S)")
_MINUS = re.compile(r"^(?:minus|negative) (?=[\d.])", re.IGNORECASE)
_EMPHASIS = re.compile(r"^(\*{1,2})([^*]+)\1")  # ** elsewhere is a power
_AROUND = re.compile(r"\{(\{*[^{},;|]*\}*)\}|\"([^\"]+)\"|'([^']+)'")
_DEGREE = re.compile(
    r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z]))|\\degree(?![A-Za-z])|\^\s*\{?\s*°\s*\}?"
    r"|(?<=\d)\^(?:\{o\}|o(?![A-Za-z]))"
)


def fold(text: str) -> str:
    """Unicode digits, signs, fractions, exponents and full-width characters in ASCII or LaTeX."""
    if text.isascii():
        return text
    text = _SCRIPTS.sub(_script, text)
    text = _VULGAR.sub(lambda m: " " + unicodedata.normalize("NFKC", m[0]), text)
    text = _CIRCLED.sub(lambda m: f"({unicodedata.digit(m[0])})", text)
    text = unicodedata.normalize("NFKC", text).translate(_TABLE)
    return "".join(str(unicodedata.decimal(c)) if not c.isascii() and c.isdecimal() else c for c in text)


def _script(found: re.Match[str]) -> str:
    if found[1]:
        return f"^{{{found[1].translate(_RAISED)}}}"
    return f"_{{{found[2].translate(_LOWERED)}}}"


def unwrap(text: str) -> str:
    """Without ``\\text{...}`` and the like at any depth; their contents are kept, set off by spaces."""
    out: list[str] = []
    opened: list[tuple[int, str, str]] = []  # place in ``out``, as written, what replaces the brace that closes it
    at, wrapper = 0, ""
    for m in _COMMAND.finditer(text):
        out.append(text[at : m.start()])
        at = m.end()
        if m[1] in WRAPPERS:
            wrapper = f"\\{m[1]}"
            continue
        if m[0] == "{":
            gap = "" if text[m.end() : m.end() + 2] in (",}", ".}") else " "
            opened.append((len(out), wrapper + "{", gap if wrapper else "}"))
            out.append(gap if wrapper else "{")
        else:
            out.append(opened.pop()[2] if m[0] == "}" and opened else m[0])
        wrapper = ""
    for place, written, _ in opened:  # never closed: left as it is
        out[place] = written
    return "".join([*out, text[at:]])


def clean(text: str) -> str:
    """Folded and unwrapped, without delimiters of formulas, sizes and spacing commands; degrees are ``°``."""
    text = _DOLLARS.sub(r"\1\\$", fold(text))
    text = unwrap(_DROPPED.sub("", _SPACE.sub(" ", text)))
    text = _DEGREE.sub("°", _ESCAPED.sub(r"\1", text)).replace("\\lbrace", "\\{").replace("\\rbrace", "\\}")
    text = text.replace("\\varnothing", "\\emptyset")
    text = _TIMES.sub(r"\\times ", text)
    text = re.sub(_REPEATING, "{", text)
    return _bare(" ".join(text.split()))


def _bare(text: str) -> str:
    """Without emphasis at the start, and braces, quotation marks, a sign of equality before the whole."""
    for _ in range(3):
        text = _EMPHASIS.sub(r"\2", text.strip(" \t`").rstrip("., ;:"))
        if around := _AROUND.fullmatch(text):
            text = next((inner for inner in around.groups() if inner is not None), "")
        text = _LEADING.sub("", text)
    return re.sub(r"(?<=[A-Za-z]{2})!+$", "", _MINUS.sub("-", text))


def unbox(text: str) -> str:
    """Without exactly one ``\\boxed{...}`` around the whole text (and dollar signs around that); else as it is."""
    inner = text.strip().strip("$").strip()
    start = re.match(r"\\boxed\s*\{", inner)
    if not start:
        return text
    depth = 1
    for m in re.compile(r"\\.|[{}]", re.DOTALL).finditer(inner, start.end()):
        depth += (m[0] == "{") - (m[0] == "}")
        if depth == 0:
            return inner[start.end() : m.start()].strip() if m.end() == len(inner) else text
    return text
