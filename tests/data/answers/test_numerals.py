from __future__ import annotations

from fractions import Fraction

import pytest

from mmcredit.data.answers.numerals import decimal_comma, in_words, numeral, places, plain_numerals


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", Fraction(12)),
        ("1,234.5", Fraction(2469, 2)),
        ("-.25", Fraction(-1, 4)),
        ("1.5e3", Fraction(1500)),
        ("3e-2", Fraction(3, 100)),
        ("- 6.50", Fraction(-13, 2)),
        ("1/2", None),
        ("", None),
        ("-", None),
        (".", None),
        ("e5", None),
        ("1,23", None),
        ("1,2345", None),
        (",123", None),
        ("1e", None),
        ("1e9999", None),
        ("1.234.567", Fraction(1234567)),
        ("1.234,5", Fraction(2469, 2)),
        ("1'000'000", Fraction(10**6)),
        ("12,34,567", Fraction(1234567)),
        ("1.234", Fraction(617, 500)),
        ("1.2.3", None),
        ("0x10", None),
        ("1_000", None),
        ("nan", None),
        ("infinity", None),
        ("thirteen", None),
        ("½", None),
        ("²", None),
    ],
)
def test_numeral(text: str, value: Fraction | None) -> None:
    assert numeral(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("seven", Fraction(7)),
        ("Twenty-one", Fraction(21)),
        ("ninety nine", Fraction(99)),
        ("one hundred and five", Fraction(105)),
        ("two thousand three hundred", Fraction(2300)),
        ("a hundred", Fraction(100)),
        ("one million two hundred thousand", Fraction(1_200_000)),
        ("minus three", Fraction(-3)),
        ("a half", Fraction(1, 2)),
        ("three quarters", Fraction(3, 4)),
        ("two and a half", Fraction(5, 2)),
        ("two thirds", Fraction(2, 3)),
        ("one two", None),
        ("twenty twelve", None),
        ("hundred", None),
        ("and", None),
        ("five and", None),
        ("thousand million", None),
        ("two dogs", None),
        ("third", None),
        ("", None),
    ],
)
def test_in_words(text: str, value: Fraction | None) -> None:
    assert in_words(text) == value


def test_every_number_below_a_thousand_in_words() -> None:
    ones = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
    ]
    ones += ["seventeen", "eighteen", "nineteen"]
    tens = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]

    def say(n: int) -> str:
        if n < 20:
            return ones[n]
        if n < 100:
            return tens[n // 10 - 2] + (f"-{ones[n % 10]}" if n % 10 else "")
        return f"{ones[n // 100]} hundred" + (f" and {say(n % 100)}" if n % 100 else "")

    assert all(in_words(say(n)) == n for n in range(1000))
    assert all(in_words(f"{say(n)} thousand {say(n)}") == 1001 * n for n in range(1, 1000, 37))


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("3{,}000", "3000"),
        ("12{,}345{,}678", "12345678"),
        ("3{,}5", "3.5"),
        ("0{,}500", "0.500"),
        ("3 000", "3000"),
        ("12 345 678", "12345678"),
        ("1 2", "1 2"),
        ("1 234 56", "1 234 56"),
        ("2 1/2", "(2+1/2)"),
        ("-2 1/2", "-(2+1/2)"),
        (r"0.\overline{3}", "(3/9)"),
        (r"1.2\overline{34}", "(1222/990)"),
    ],
)
def test_plain_numerals(text: str, want: str) -> None:
    assert plain_numerals(text) == want


def test_decimal_comma_and_places() -> None:
    assert decimal_comma("0,5") == Fraction(1, 2) and decimal_comma("-1,25") == Fraction(-5, 4)
    assert decimal_comma("1,2,3") is None and decimal_comma("1.5") is None
    assert [places(text) for text in ("0.50", "7", ".125", "3,000.5", "1/2", "5 cm", "1e3")] == [
        2, 0, 3, 1, None, None, None,
    ]  # fmt: skip
