"""Formulas as trees: a Pratt parser, linear in the tokens and bounded in depth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from mmcredit.data.answers.cursor import Cursor
from mmcredit.data.answers.nodes import Call, Name, Node, Num
from mmcredit.data.answers.tokens import NoFormula, Token

_INFIX = {"+": ("add", 10), "-": ("sub", 10), "pm": ("pm", 10), "*": ("mul", 20), "/": ("div", 20), ":": ("div", 20)}
_POWER, _PRODUCT, _SIGN = 40, 20, 19
_POSTFIX = {"!": "factorial", "%": "percent", "°": "degree"}
_STARTS = {"number", "name", "function", "(", "{", "[", "frac", "sqrt", "binom", "oo", "|"}
_SIGNS, _FRACTIONS, _ZERO = ("+", "-", "pm"), {"frac": "div", "binom": "binomial"}, Num(Fraction(0))
_CLOSING = {"(": ")", "{": "}", "[": "]", "|": "|"}
MOST_TOKENS = 256  # a chain of operations nests, and trees are compared by recursion


def expression(tokens: Sequence[Token]) -> Node:
    """The tree of a formula without commas and relations.

    Raises:
        NoFormula: it is none, too long, or nests too deeply.
    """
    if len(tokens) > MOST_TOKENS:
        raise NoFormula("too long")
    parser = _Parser(tokens)
    node = parser.parse(0)
    if parser.at != len(tokens):
        raise NoFormula("something is left over")
    return node


class _Parser(Cursor):
    """Binding powers: sums 10, products (also without a sign) 20, powers 40."""

    bars = 0  # of an absolute value that is open

    def parse(self, least: int) -> Node:
        self.deeper()
        node = self.prefix(least)
        while True:
            token = self.peek()
            if token.kind in _POSTFIX:
                self.at += 1
                node = Call(_POSTFIX[token.kind], (node,))
            elif token.kind == "^":
                if least > _POWER:
                    break
                self.at += 1
                node = Call("pow", (node, self.parse(_POWER)))
            elif token.kind in _INFIX:
                head, power = _INFIX[token.kind]
                if power <= least:
                    break
                self.at += 1
                node = Call(head, (node, self.parse(power)))
            elif self.product_follows(token, least):
                node = self.product(node, token)
            else:
                break
        self.depth -= 1
        return node

    def product_follows(self, token: Token, least: int) -> bool:
        return token.kind in _STARTS and least < _PRODUCT and not (token.kind == "|" and self.bars)

    def product(self, left: Node, token: Token) -> Node:
        """Factors side by side; a whole number before a proper fraction is a mixed number."""
        before = self.tokens[self.at - 1]
        if token.kind == "number" and before.kind not in (")", "}", "]", "|"):
            raise NoFormula("two numbers side by side")
        right = self.parse(_PRODUCT)
        if token.kind == "frac" and before.kind == "number" and isinstance(left, Num) and left.value.denominator == 1:
            parts = right.args if isinstance(right, Call) and right.head == "div" else ()
            values = [part.value for part in parts if isinstance(part, Num)]
            if len(values) == 2 and 0 < values[0] < values[1]:
                return Call("add", (left, right))
        return Call("mul", (left, right))

    def prefix(self, least: int) -> Node:
        token = self.take()
        if token.kind in _CLOSING:
            return self.group(token.kind)
        if token.kind in _SIGNS:
            signed = self.parse(max(least, _SIGN))
            return {"+": signed, "-": Call("neg", (signed,)), "pm": Call("pm", (_ZERO, signed))}[token.kind]
        if token.kind in _FRACTIONS:
            return Call(_FRACTIONS[token.kind], (self.argument(), self.argument()))
        begin = _LEAVES.get(token.kind)
        if begin is None:
            raise NoFormula(f"{token.kind} begins no formula")
        return begin(self, token)

    def name(self, token: Token) -> Node:
        """A letter with its index and primes."""
        name = token.text
        if self.peek().kind == "_":
            self.at += 1
            name += "_" + self.index()
        while self.peek().kind == "'":
            self.at += 1
            name += "'"
        return Name(name)

    def index(self) -> str:
        token = self.take()
        if token.kind in ("number", "name"):
            return token.text
        found = ""
        while token.kind == "{" and self.peek().kind in ("number", "name"):
            found += self.take().text
        self.take("}")
        return found

    def group(self, opening: str) -> Node:
        inside, self.bars = self.bars, int(opening == "|")
        node = self.parse(0)
        self.bars = inside
        self.take(_CLOSING[opening])
        return Call("abs", (node,)) if opening == "|" else node

    def argument(self) -> Node:
        """Of a LaTeX command: a group in braces, or one symbol (``\\frac12``)."""
        token = self.peek()
        if token.kind == "{":
            self.at += 1
            return self.group("{")
        if token.kind == "number":
            return self.digit(token)
        self.deeper()
        node = self.prefix(_POWER)
        self.depth -= 1
        return node

    def digit(self, token: Token) -> Node:
        """The first digit of a number; the others stay."""
        rest = token.text[1:]
        if not rest:
            self.at += 1
        elif rest.isdigit():
            left = Token("number", rest, token.start + 1, token.end, Fraction(int(rest)))
            self.tokens = [*self.tokens[: self.at], left, *self.tokens[self.at + 1 :]]
        else:
            raise NoFormula("a decimal without braces")
        return Num(Fraction(int(token.text[0])))

    def root(self, _: Token) -> Node:
        index: Node = Num(Fraction(2))
        if self.peek().kind == "[":
            self.at += 1
            index = self.group("[")
        if self.peek().kind in ("(", "{", "number"):
            token = self.take()
            return Call("root", (Num(token.value) if token.kind == "number" else self.group(token.kind), index))
        return Call("root", (self.argument(), index))

    def function(self, token: Token) -> Node:
        """``\\sin^2 2x``, ``\\log_2 8``, ``sin(x)``."""
        name, base, power = token.text, None, None
        for _ in range(2):
            if self.peek().kind == "_":
                self.at += 1
                base = self.argument() if self.peek().kind != "number" else Num(self.take().value)
            elif self.peek().kind == "^":
                self.at += 1
                power = self.parse(_POWER)
        inverse = power == Call("neg", (Num(Fraction(1)),)) and name in ("sin", "cos", "tan")
        argument = self.operand()
        if name == "exp":
            node = Call("pow", (Name("e"), argument))
        elif base is not None:
            node = Call("logarithm", (argument, base))
        else:
            node = Call(f"arc{name}" if inverse else _SAME.get(name, name), (argument,))
        return node if power is None or inverse else Call("pow", (node, power))

    def operand(self) -> Node:
        """A group, or factors up to the next sign or function."""
        token = self.peek()
        if token.kind in ("(", "{", "["):
            self.at += 1
            return self.group(token.kind)
        node = self.parse(_PRODUCT)
        while self.peek().kind in ("number", "name", "oo", "frac", "sqrt"):
            node = Call("mul", (node, self.parse(_PRODUCT)))
        return node


_LEAVES: dict[str, Callable[[_Parser, Token], Node]] = {
    "number": lambda _, token: Num(token.value),
    "oo": lambda _, __: Name("oo"),
    "name": _Parser.name,
    "sqrt": _Parser.root,
    "function": _Parser.function,
}
_SAME = {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}
