"""Answers made to hang, crash or fool a verifier."""

from __future__ import annotations

import random
from collections.abc import Iterator

_SHELLS = [
    "%s",
    "\\frac{%s}{%s}",
    "\\sqrt{%s}",
    "(%s)",
    "\\left(%s\\right)",
    "x=%s",
    "%s, %s",
    "\\{%s\\}",
    "-%s",
    "%s+1",
]
_SEEDS = [
    "9^{9^{9^9}}",
    "9**9**9**9",
    "2^{1/99999}",
    "9^{8^{-99}}",
    "\\sqrt[63]{" + "9" * 250 + "}",
    "(x+1)^{64}" + "+(x+2)^{64}" * 40,
    "*".join(["(a+b+c)^{8}"] * 40),
    "(1+\\sqrt2)^{64}" * 30,
    "(10^{10^{10}})!",
    "factorial(factorial(9))",
    "9!!!!!!!",
    "((9!)!)!",
    "2^{2^{2^{2^{2^2}}}}",
    "x^{x^{x^x}}",
    "(x+1)^{9999}",
    "(x+y+z)^{64}",
    "((x+1)^{64})^{64}",
    "(a+b+c+d)^{60}",
    "e^{e^{e^{e^{e}}}}",
    "10^{10^{10}}",
    "1e999999999",
    "1e-999999999",
    "9" * 500,
    "0." + "0" * 480 + "1",
    "1/" + "9" * 400,
    "9" * 200 + "^{64}",
    "\\binom{99999}{5000}",
    "\\sqrt[99999]{2}",
    "\\sqrt{" + "9" * 300 + "}",
    "\\sqrt{99999999999999999989}",
    "0.\\overline{" + "9" * 300 + "}",
    "\\sin(10^{60})",
    "\\tan(10^{300})",
    "\\cos^{64} x \\sin^{64} x",
    "\\log_{1}2",
    "\\log 0",
    "\\frac{1}{0}",
    "0^0",
    "0^{-1}",
    "\\sum_{n=1}^{\\infty}\\frac{1}{n^2}",
    "\\int_0^1 e^{x^2} dx",
    "\\lim_{x\\to 0}\\frac{\\sin x}{x}",
    "\\prod_{i=1}^{10^9} i",
    "__import__('os').system('id')",
    "eval('1')",
    "exec(open('/etc/passwd').read())",
    "().__class__.__bases__[0]",
    "lambda: 7",
    "{{7*7}}",
    "${7*7}",
    "'; DROP TABLE x; --",
    "<script>7</script>",
    "%s%s%s%n",
    "\\input{/etc/passwd}",
    "\\write18{id}",
    "\x00",
    "7\x00",
    "\x00" * 400,
    "\ud800",
    "\u202e7",
    "7\u0301" * 100,
    "\ufdfa" * 100,
    "\N{KEYCAP TEN}",
    "٧" * 100,
    "\r\n" * 200,
    "7 7 7 7",
    "7,7,7,7",
    "1,2,3,4,5,6,7",
    "7 or 8",
    "all of them",
    "A B C D",
    "A. B. C. D.",
    "(A)(B)(C)(D)",
    "yes no",
    "not 8",
    "nan",
    "inf",
    "-inf",
    "NaN",
    "None",
    "null",
    "undefined",
    "infinity - infinity",
    "\\infty-\\infty",
    "\\frac{\\infty}{\\infty}",
    "+".join(["x"] * 250),
    "*".join(["99"] * 160),
    "-" * 400 + "7",
    "+" * 400 + "8",
    "1+" * 250,
    "|" * 400,
    "/" * 400,
    "^" * 400,
    "{" * 250 + "8" + "}" * 250,
    "(" * 250 + "8" + ")" * 250,
    "[" * 500,
    "}" * 500,
    "\\{" * 250,
    "\\text{" * 80,
    "(((((",
    "\\left(" * 80,
    "\\frac" * 100,
    "\\frac{1}{" * 50 + "2" + "}" * 50,
    "\\sqrt" * 100 + "2",
    "^{" * 200 + "}" * 200,
    "_{" * 200,
    "!" * 500,
    "%" * 500,
    "1/" * 250 + "1",
    "2^" * 250 + "2",
    "x'" * 200,
    "\\begin{pmatrix}" + "1&" * 150 + "\\end{pmatrix}",
    "\\begin{matrix}" * 30,
    "&" * 400,
    "=" * 400,
    "x=" * 200,
    "1<" * 200 + "2",
    "\\cup" * 100,
    "(0,1)\\cup" * 50 + "(0,1)",
    "," * 500,
    ";" * 500,
    ":" * 500,
    "7:" * 200,
    "\\pm" * 100 + "7",
    "1\\pm1\\pm1\\pm1\\pm1",
    "(1)" * 150,
    "(1) 2 (2) " * 40,
    "and " * 120,
    "a or " * 100,
    "one " * 120,
    "hundred " * 60,
    "7" + " cm" * 120,
    "7 cm/s" * 60,
    "7 per" * 90,
    "7^" + "{\\circ}" * 60,
    "\\$" * 250,
    "$" * 500,
    "\\" * 500,
    "\\\\" * 250,
    "`" * 500,
    "sin" * 160,
    "sin " * 120 + "x",
    "\\sin" * 120 + "x",
    "\\arcsin 99",
    "abs(" * 120,
    "\\log_" * 100,
    "pi" * 250,
    "\\pi" * 160,
    "e" * 500,
]


def adversarial(count: int, seed: int = 0) -> Iterator[str]:
    """That many answers of at most 512 characters, none of them 8, all different."""
    rng, seen = random.Random(seed), set[str]()
    queue = list(_SEEDS)
    while len(seen) < count:
        text = queue.pop(0) if queue else _grown(rng)
        if text not in seen and text.strip():
            seen.add(text)
            yield text


def _grown(rng: random.Random) -> str:
    text = rng.choice(_SEEDS)
    for _ in range(rng.randint(1, 3)):
        match rng.randint(0, 4):
            case 0:
                text = rng.choice(_SHELLS).replace("%s", text)
            case 1:
                text = text + rng.choice(["+", "*", "^", ",", " ", "=", "\\cdot ", "_", "!"]) + rng.choice(_SEEDS)
            case 2:
                at = rng.randint(0, len(text))
                text = text[:at] + rng.choice(["\x00", "{", "}", "\\", "(", ")", "^", "$", "\u200b"]) + text[at:]
            case 3:
                text = text[: rng.randint(1, len(text))] if text else text
            case _:
                text = "".join(rng.sample(text, min(len(text), 60)))
    return text[:512]
