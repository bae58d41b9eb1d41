"""Symbols of a formula in LaTeX or ASCII."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from mmcredit.data.answers.numerals import NUMERAL, WITHOUT_COMMA, value


class NoFormula(ValueError):
    """The text is no formula of the grammar."""


@dataclass(frozen=True, slots=True)
class Token:
    """``kind`` is ``number``, ``name``, ``function`` or the symbol itself; it lies in ``start`` to ``end``."""

    kind: str
    text: str
    start: int
    end: int
    value: Fraction = Fraction(0)


FUNCTIONS = {
    *("sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh"),
    *("ln", "log", "lg", "exp", "abs", "sqrt", "asin", "acos", "atan"),
}
GREEK = set(
    [
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "varepsilon",
        "zeta",
        "eta",
        "theta",
        "vartheta",
        "iota",
        "kappa",
        "lambda",
        "mu",
        "nu",
        "xi",
        "rho",
        "sigma",
    ]
)
GREEK |= set(
    [
        "tau",
        "upsilon",
        "phi",
        "varphi",
        "chi",
        "psi",
        "omega",
        "Gamma",
        "Delta",
        "Theta",
        "Lambda",
        "Xi",
        "Sigma",
        "Phi",
        "Psi",
        "Omega",
        "ell",
    ]
)
_COMMANDS = {
    **{"times": "*", "cdot": "*", "ast": "*", "div": "/", "le": "<=", "leq": "<=", "leqslant": "<=", "ge": ">="},
    **{"geq": ">=", "geqslant": ">=", "lt": "<", "gt": ">", "ne": "!=", "neq": "!=", "pm": "pm", "mp": "pm"},
    **{"cup": "cup", "in": "in", "frac": "frac", "dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "sqrt": "sqrt"},
    **{"binom": "binom", "dbinom": "binom", "tbinom": "binom", "infty": "oo", "langle": "(", "rangle": ")"},
    **{"lvert": "|", "rvert": "|", "vert": "|", "mid": "|", "lbrack": "[", "rbrack": "]", "colon": ":"},
    **{"begin": "begin", "end": "end", "emptyset": "empty", "varnothing": "empty", "approx": "=", "lor": "or"},
    **{"land": "and", "degree": "°", "equiv": "=", "or": "or", "prime": "'", "and": "and", "vee": "or"},
}
_WORDS = {"or": "or", "and": "and", "union": "cup", "pi": "pi", "infinity": "oo", "inf": "oo"}
_TOKEN = re.compile(
    r"(?P<space>\s+)|\\(?P<command>[A-Za-z]+)|(?P<word>[A-Za-z]+)|(?P<row>\\\\)|(?P<set>\\[{}|])"
    r"|(?P<symbol>\*\*|<=|>=|!=|==|[-+*/^_=<>()\[\]{},;:|!%'&°])"
)
_GLUED = re.compile(r"(arc)?(sin|cos|tan|ln|log)(?=[a-z]$)")


def tokenize(text: str) -> list[Token]:
    """Symbols of a text without spaces. Linear.

    Raises:
        NoFormula: a word or a character that no formula has.
    """
    tokens: list[Token] = []
    at, depth = 0, 0
    while at < len(text):
        if text[at].isdigit() or (text[at] == "." and text[at + 1 : at + 2].isdigit()):
            m = (WITHOUT_COMMA if depth else NUMERAL).match(text, at)
            number = value(m[0]) if m else None
            if m is None or number is None:
                raise NoFormula("a numeral of no known form")
            tokens.append(Token("number", m[0], at, m.end(), number))
            at = m.end()
            continue
        m = _TOKEN.match(text, at)
        if m is None:
            raise NoFormula("a character of no formula")
        if not m["space"]:
            tokens += _tokens(m)
            last = tokens[-1].kind
            depth += (last in ("(", "[", "{", "\\{")) - (last in (")", "]", "}", "\\}"))
        at = m.end()
    return tokens


def _tokens(m: re.Match[str]) -> list[Token]:
    start, end, text = m.start(), m.end(), m[0]
    if m["command"]:
        return [_command(m["command"], start, end)]
    if m["word"]:
        return _word(text, start)
    return [Token({"**": "^", "==": "=", "\\|": "|"}.get(text, text), text, start, end)]


def _command(name: str, start: int, end: int) -> Token:
    if name in _COMMANDS:
        return Token(_COMMANDS[name], name, start, end)
    if name in FUNCTIONS:
        return Token("function", name, start, end)
    if name in GREEK or name == "pi":
        return Token("name", name.removeprefix("var"), start, end)
    raise NoFormula("a command of no known meaning")


def _word(text: str, start: int) -> list[Token]:
    end = start + len(text)
    if text == "sqrt":
        return [Token("sqrt", text, start, end)]
    if text in FUNCTIONS:
        return [Token("function", text, start, end)]
    if text in _WORDS:
        kind = _WORDS[text]
        return [Token("name", text, start, end) if kind == "pi" else Token(kind, text, start, end)]
    if m := _GLUED.match(text):
        return [Token("function", m[0], start, start + m.end()), *_word(text[m.end() :], start + m.end())]
    if text.startswith("pi") and len(text) == 3:
        return [Token("name", "pi", start, start + 2), *_word(text[2:], start + 2)]
    if len(text) > 2 and not _product(text):
        raise NoFormula("a word")
    return [Token("name", letter, start + i, start + i + 1) for i, letter in enumerate(text)]


def _product(text: str) -> bool:
    """Whether three letters are a product (``xyz``, ``ABC``, ``abx``) and no word."""
    low = text.lower()
    usual = set(low) <= set("abcxyz") and low not in ("cab", "bay", "zax")
    return len(text) == 3 and (usual or ord(low[2]) - ord(low[1]) == ord(low[1]) - ord(low[0]) == 1)
