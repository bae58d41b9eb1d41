from __future__ import annotations

import random

import pytest

from mmcredit.data.answers import Kind, answer_kind
from mmcredit.reward.verifier import AnswerVerifier, words

VERIFIER = AnswerVerifier(seconds=20)


def matches(gold: str, answer: str) -> bool:
    return VERIFIER.verify(gold, answer).right


NUMBERS = [
    ("3000", "3,000"),
    ("1234567", "1,234,567"),
    ("3,000", "3000"),
    ("12", "12.0"),
    ("12", "012"),
    ("12", "+12"),
    ("12", "12."),
    ("12", "12 ."),
    ("12", " 12 "),
    ("12", "$12$"),
    ("12", r"\text{12}"),
    ("12", r"\mathbf{12}"),
    ("-5", "−5"),  # Unicode minus
    ("-5", "-5.00"),
    ("0", "-0"),
    ("$5", "5"),
    ("0.5", ".5"),
    ("0.5", "1/2"),
    ("0.5", "1 / 2"),
    ("1/2", "2/4"),
    ("-1/2", "-0.5"),
    ("1500", "1.5e3"),
    ("0.0001", "1E-4"),
    ("2", "two"),
    ("two", "2"),
    ("Two", "2.0"),
    ("12", "Twelve"),
    ("0", "zero"),
    ("3", "٣"),  # an Arabic-Indic digit is a digit
    ("0.1", "0.10"),
]
LETTERS = [
    ("A", "(A)"),
    ("A", r"\text{A}"),
    ("A", "A. 12 cm"),
    ("A", r"\textbf{(A)}"),
    ("A", "a"),
    ("A", "A)"),
    ("A", "A: the red one"),
    ("(B)", "b"),
    ("B. red", "B"),
    ("J", "(j)"),
]
WORDS = [
    ("Yes", "yes"),
    ("yes", "Yes."),
    ("no", "No!"),
    ("red cube", "Red  cube"),
    ("cube", "a cube"),
    ("the cube", "cube"),
    ("an orange ball", "The orange ball"),
    ("red", "**red**"),
    ("red cube", "**A red cube**"),
    ("A, B", "a,b"),
    ("it's", "it’s"),
    ("blue-green", "blue green"),
    ("Straße", "STRASSE"),
    ("猫", "猫。"),
    ("-5 cm", "-5 cm!"),
    ("-5 cm", "− 5 cm".replace(" ", "", 1)),
    ("the", "the"),
    ("<", "<"),
    ("9^{9^{9^9}}", "9^{9^{9^9}}"),  # equal strings need no evaluation
]
WRONG = [
    ("5", ""),
    ("5", "   "),
    ("5", "."),
    ("5", "$"),
    ("red", ""),
    ("red", "!"),
    ("A", ""),
    ("", ""),
    ("", "5"),
    ("1", "10"),
    ("10", "1"),
    ("1", "11"),
    ("1", "1 2"),
    ("12", "1,2"),
    ("3000", "3,00"),
    ("5", "-5"),
    ("-5", "5"),
    ("5", "5.0001"),
    ("0.1", "0.1000000000000000055511151231257827"),  # exact, not by binary fractions
    ("1/3", "0.3333333333"),
    ("3.14", r"\pi"),
    ("1/2", "2/1"),
    ("2", "²"),
    ("2", "two dogs"),
    ("1", "one hundred"),
    ("9", "9**9**9"),
    ("9", "9^9"),
    ("7", "9^{9^{9^9}}"),
    ("7", "factorial(factorial(9))"),
    ("5", "1/0"),
    ("0", "0/0"),
    ("5", "nan"),
    ("5", "inf"),
    ("5", "e5"),
    ("5", "1e999999"),
    ("A", "B"),
    ("A", "A dog"),
    ("A", "A or B"),
    ("A", "AB"),
    ("A, B", "B"),
    ("A B", "B"),
    ("B", "A, B"),
    ("A", "dog A"),
    ("A", "(B) A"),
    ("A dog", "A"),
    ("B", "8"),
    ("A", "the"),
    ("K", "L"),
    ("yes", "no"),
    ("yes", "yes no"),
    ("yes", "yesyes"),
    ("red", "not red"),
    ("red", "red blue"),
    ("red blue", "blue red"),
    ("cat", "cats"),
    ("cat", "concatenate"),
    ("the cube", "the"),
    ("!!!", "???"),
    ("<", ">"),
    ("+", "-"),
    ("-5 cm", "5 cm"),
    ("5 cm", "-5 cm"),
    ("x=-3", "x=3"),
    (r"-\frac{3}{4}", r"\frac{3}{4}"),
    ("(1,2)", "(2,1)"),
]


@pytest.mark.parametrize(("gold", "answer"), NUMBERS + LETTERS + WORDS)
def test_right(gold: str, answer: str) -> None:
    assert matches(gold, gold)
    assert matches(gold, answer)


@pytest.mark.parametrize(("gold", "answer"), WRONG)
def test_wrong(gold: str, answer: str) -> None:
    assert not matches(gold, answer)


@pytest.mark.parametrize("gold", ["", " ", "\n", ".", "...", "$", "$$", r"\text{}", " . "])
def test_empty_golds_match_nothing(gold: str) -> None:
    assert not matches(gold, gold)
    assert not matches(gold, gold)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("the red cube", ["red", "cube"]),
        ("a", ["a"]),
        ("the cube", ["cube"]),
        ("a, b", ["a", "b"]),
        ("a b", ["a", "b"]),
        ("the theory", ["theory"]),
        ("another ant", ["another", "ant"]),
        ("red, blue; green!", ["red", "blue", "green"]),
        ("blue-green", ["blue", "green"]),
        ("-5 cm, 3-4", ["-", "5", "cm", "3", "4"]),
        ("?!", []),
    ],
)
def test_words(text: str, want: list[str]) -> None:
    assert words(text) == want


def dressed(number: int, rng: random.Random) -> str:
    """The number in one of many writings."""
    text = rng.choice([str(number), f"{number:,}", f"{number}.0", f"{number}.", f"{2 * number}/2", f"{number}e0"])
    form = rng.choice(["%s", " %s ", "$%s$", "\\text{%s}", "%s .", "\\textbf{$%s$}", "\n%s"])
    return form % text


@pytest.mark.parametrize("seed", range(3))
def test_integers_in_any_writing(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(300):
        number = rng.choice([rng.randint(-20, 20), rng.randint(-(10**7), 10**7)])
        gold, answer = dressed(number, rng), dressed(number, rng)
        assert matches(gold, answer), (gold, answer)
        other = dressed(rng.choice([number + 1, number - 1, 10 * number + 1, -number - 1]), rng)
        assert not matches(gold, other), (gold, other)


ADVERSARIAL = [
    "{" * 100_000,
    "(" * 100_000,
    "\\text{" * 20_000,
    "\\text{" + "x" * 100_000,
    "\x00" * 1000,
    "9" * 5000,
    "-" + "9" * 5000,
    "0." + "9" * 5000,
    "9" * 5000 + "/" + "9" * 5000,
    "1" + ",000" * 5000,
    "1" + ",000" * 5000 + ",",
    "1e999999",
    "1e999",
    "1e-999",
    "9**9**9",
    "9^{9^{9^9}}",
    "²",
    "٣",
    "½",
    "Ⅷ",
    "\ud800",
    "A." + " x" * 50_000,
    "the" + " " * 100_000 + "b",
    "." * 100_000,
    "a\u0301" * 10_000,
    "ﷺ" * 10_000,
]


@pytest.mark.parametrize("text", ADVERSARIAL, ids=lambda t: f"{t[:14]!a}x{len(t)}")
def test_adversarial_answers_are_wrong_and_equal_only_to_themselves(text: str) -> None:
    for gold in ("7", "B", "yes", "red cube"):
        assert not matches(gold, text)
        assert not matches(text, gold)
    assert matches(text, text) == (answer_kind(text) is not Kind.UNPARSABLE)


def test_huge_numerals_are_compared_exactly() -> None:
    nines = "9" * 5000
    assert matches(nines, nines + ".0")
    assert not matches(nines, nines[:-1] + "8")
    assert not matches(nines, nines + ".1")
    assert not matches("1e-999", "0")


@pytest.mark.parametrize("seed", range(5))
def test_random_text_never_raises_and_matches_itself(seed: int) -> None:
    rng = random.Random(seed)
    pieces = [*"0123456789.,-+/e()$ aAbx:", "−", "\\text{", "}", "٣", "²", "the ", "\x00", "\n", "two", "é"]
    for _ in range(500):
        gold, answer = ("".join(rng.choices(pieces, k=rng.randint(0, 8))) for _ in range(2))
        assert matches(gold, answer) in (True, False)
        assert matches(gold, gold) == (answer_kind(gold) is not Kind.UNPARSABLE)
        assert not matches(gold, "")


@pytest.mark.parametrize(
    ("gold", "answer", "right"),
    [
        ("x^2+2x+1", "x^2 + 2x + 1", True),
        ("x^2+2x+1", "x^2-2x-1", False),
        ("[0,1)", "(0,1)", False),
        ("a < b", "a > b", False),
    ],
)
def test_formulas_are_compared_as_written(gold: str, answer: str, right: bool) -> None:
    assert matches(gold, answer) is right
