from __future__ import annotations

import math
import pickle
import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.reward.adversarial import adversarial
from tests.reward.pairs import PAIRS, TABLE

from mmcredit.data.answers import Kind, answer_kind
from mmcredit.data.answers.words import words
from mmcredit.reward.extract import Extractor
from mmcredit.reward.verdict import Outcome, Policy, Verdict
from mmcredit.reward.verifier import AnswerVerifier
from mmcredit.types import UserError

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
    ("2", "three dogs"),
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


# --- by class -----------------------------------------------------------------------------------------------------

ALL = [(name, *pair) for name, pairs in PAIRS.items() for pair in pairs]


@pytest.mark.parametrize(("name", "gold", "answer", "right"), ALL, ids=lambda v: v if isinstance(v, str) else "")
def test_pairs(name: str, gold: str, answer: str, right: bool) -> None:
    verdict = VERIFIER.verify(gold, answer)
    assert verdict.right is right and not verdict.error


@pytest.mark.parametrize(("gold", "response", "right"), TABLE)
def test_responses(gold: str, response: str, right: bool) -> None:
    span = Extractor()(response)
    assert (span is not None and matches(gold, response[slice(*span)])) is right


def test_every_class_has_right_and_wrong_answers() -> None:
    assert len(ALL) > 450
    for name, pairs in PAIRS.items():
        assert len(pairs) >= 6 and any(not right for *_, right in pairs), name


SYMMETRIC = ["integers", "decimals", "fractions", "scientific", "roots and constants", "formulas", "matrices", "ratios"]


@pytest.mark.parametrize("name", SYMMETRIC)
def test_equality_does_not_depend_on_the_side(name: str) -> None:
    for gold, answer, right in PAIRS[name]:
        if Kind.UNPARSABLE not in (answer_kind(gold), answer_kind(answer)) and "=" not in gold + answer:
            commas = "," in gold + answer  # a decimal comma is read where a number is wanted
            assert commas or matches(answer, gold) is right, (answer, gold)


def test_every_gold_answer_is_right_for_itself_boxed_or_not() -> None:
    for _, gold, _, _ in ALL:
        usable = answer_kind(gold) is not Kind.UNPARSABLE
        assert matches(gold, gold) is usable and matches(f"\\boxed{{{gold}}}", gold) is usable, gold


# --- policies -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "gold", "answer", "right"),
    [
        ({"tolerance": "relative"}, r"\frac{2}{3}", "0.667", True),
        ({"tolerance": "relative"}, r"\frac{2}{3}", "0.68", False),
        ({"tolerance": "relative", "relative": 1e-5}, r"\pi", "3.14159", True),
        ({"tolerance": "relative", "relative": 1e-5}, r"\pi", "3.1415", False),
        ({"tolerance": "relative"}, r"2\sqrt{3}", "3.46", True),
        ({"tolerance": "relative"}, "0", "0.001", False),
        ({"tolerance": "relative"}, "(1, 2)", "(1.001, 2)", True),
        ({"tolerance": "decimal_places"}, "0.67", r"\frac{2}{3}", True),
        ({"tolerance": "decimal_places"}, "0.67", "0.666", True),
        ({"tolerance": "decimal_places"}, "0.67", "0.66", False),
        ({"tolerance": "decimal_places"}, "3.14", r"\pi", True),
        ({"tolerance": "decimal_places"}, "3", "3.2", False),
        ({"tolerance": "decimal_places"}, r"\frac{2}{3}", "0.667", False),
        ({"accept_percent": False}, "0.5", r"50\%", False),
        ({"accept_percent": False}, "50%", "0.5", False),
        ({"accept_percent": False}, "50%", "50", True),
        ({"units": "ignore"}, "5 cm", "5 m", True),
        ({"units": "ignore"}, "5 cm", "50 mm", False),
        ({"ordered": False}, "1,2", "2,1", True),
        ({"ordered": False}, "1,2", "2,2", False),
        ({"ordered": False}, "(1,2)", "(2,1)", False),
        ({"decimal_comma": False}, "0.5", "0,5", False),
        ({"inequality_for_interval": True}, "(0,1)", "0<x<1", True),
        ({"inequality_for_interval": True}, "(0,1)", r"0\le x<1", False),
    ],
)
def test_policies(options: dict[str, object], gold: str, answer: str, right: bool) -> None:
    verifier = AnswerVerifier(Policy(**options), seconds=20)  # type: ignore[arg-type]
    assert verifier.verify(gold, answer).right is right
    verifier.workers.close()


@pytest.mark.parametrize("options", [{"tolerance": "about"}, {"units": "si"}, {"relative": 1.0}, {"relative": -0.1}])
def test_an_unknown_policy_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(UserError, match=next(iter(options))):
        Policy(**options)  # type: ignore[arg-type]


# --- options ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gold", "answer", "right"),
    [
        ("B", "B", True),
        ("B", "13 cm", True),
        ("B", "13", True),
        ("B", "(B) 13 cm", True),
        ("B", "(B) 12 cm", False),  # says two things
        ("B", "12", False),
        ("B", "99", False),
        ("13 cm", "B", True),
        ("13", "(B)", True),
        ("13 cm", "A", False),
        ("13 cm", "13", True),
        ("13 cm", "B. 13 cm", True),
        ("C", r"\sqrt{12}", True),
        (r"2\sqrt{3}", "C", True),
        (r"2\sqrt{3}", "D", False),
        ("D", "none of these", True),
        ("none of these", "(d)", True),
        ("99", "A", False),
    ],
)
def test_letters_and_texts_of_options(gold: str, answer: str, right: bool) -> None:
    choices = ("12 cm", "13 cm", r"2\sqrt{3}", "None of these")
    assert VERIFIER.verify(gold, answer, choices).right is right


def test_none_is_an_answer_where_an_option_says_it() -> None:
    choices = ("two dogs", "three dogs", "none")
    assert VERIFIER.verify("C", "None", choices).right and not VERIFIER.verify("A", "None", choices).right
    assert VERIFIER.verify("A", "2 dogs", choices).right and not VERIFIER.verify("B", "2 dogs", choices).right


def test_a_text_that_fits_two_options_is_no_answer() -> None:
    assert not VERIFIER.verify("A", "0.5", ("1/2", "2/4")).right


# --- outcomes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gold", "answer", "outcome", "stage"),
    [
        ("5", "5", Outcome.RIGHT, "written"),
        ("5", "6", Outcome.WRONG, "exact"),
        ("5", "a dog", Outcome.UNPARSABLE, "words"),
        ("5", "", Outcome.UNPARSABLE, "number"),
        ("", "5", Outcome.UNPARSABLE, "gold"),
        ("5", "9^{9^{9^9}}", Outcome.UNPARSABLE, "bound"),
        ("5 cm", "5 s", Outcome.WRONG, "units"),
        ("A", "B", Outcome.WRONG, "letter"),
        ("yes", "perhaps", Outcome.UNPARSABLE, "words"),
        (r"\sin x", r"\cos x", Outcome.WRONG, "numeric"),
        (r"\sin 2x", r"2\sin x\cos x", Outcome.RIGHT, "symbolic"),
    ],
)
def test_outcomes_are_kept_apart(gold: str, answer: str, outcome: Outcome, stage: str) -> None:
    assert VERIFIER.verify(gold, answer) == Verdict(outcome, answer_kind(gold), stage)


def test_a_comparison_that_hangs_is_timed_out_and_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    verifier = AnswerVerifier(seconds=0.3)
    monkeypatch.setattr(verifier.workers, "task", "tests.reward.worker_tasks.hang")
    assert verifier.verify(r"\sin 2x", r"2\sin x\cos x").outcome is Outcome.TIMED_OUT
    monkeypatch.setattr(verifier.workers, "ask", None)
    assert verifier.verify(r"\sin 2x", r"2\sin x\cos x").outcome is Outcome.TIMED_OUT


def test_plain_answers_start_no_worker() -> None:
    verifier = AnswerVerifier()
    for name in ("letters", "several letters", "yes or no", "integers", "thousands", "currency", "text", "too large"):
        for gold, answer, right in PAIRS[name]:
            assert verifier.verify(gold, answer).right is right
    assert not verifier.workers.idle and not verifier._proofs


def test_an_error_of_the_verifier_itself_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    verifier = AnswerVerifier()
    monkeypatch.setattr(verifier, "_compare", None)
    verdict = verifier.verify("5", "6")
    assert verdict == Verdict(Outcome.UNPARSABLE, Kind.NUMBER, "error", "TypeError")


def test_pickled_verifiers_say_the_same() -> None:
    copy = pickle.loads(pickle.dumps(AnswerVerifier(Policy(ordered=False), seconds=20)))
    assert copy.verify("1,2", "2,1").right and copy.verify(r"\sin 2x", r"2\sin x\cos x").right
    copy.workers.close()


# --- hostile answers ----------------------------------------------------------------------------------------------

GOLDS = ["8", "B", "yes", r"\frac{1}{3}", "x^2+2x+5", r"\sin 2x", "(1,3)", "[0,1)", r"\{1,2,3\}", "red cube", "x=5"]
GOLDS += [r"2\sqrt{3}", "(1) 3 (2) 5", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", "5 cm", "y=3x-1", "2:3", "x<2 or x>3"]


def test_a_thousand_hostile_answers_from_four_threads() -> None:
    answers = list(adversarial(1000))
    verifier, jobs = AnswerVerifier(), [(GOLDS[i % len(GOLDS)], answer) for i, answer in enumerate(answers)]
    begin = time.monotonic()
    with ThreadPoolExecutor(4) as threads:
        verdicts = list(threads.map(lambda job: verifier.verify(*job), jobs))
    assert time.monotonic() - begin < 20
    for (gold, answer), verdict in zip(jobs, verdicts, strict=True):
        assert not verdict.error and not verdict.right, (gold, answer, verdict)
    verifier.workers.close()


def test_hostile_golds_and_answers_of_every_kind_raise_nothing() -> None:
    rng, answers = random.Random(0), list(adversarial(1000, seed=1))
    for answer in answers:
        for gold in (rng.choice(answers), rng.choice(GOLDS)):
            assert not VERIFIER.verify(gold, answer).error, (gold, answer)
        assert not VERIFIER.verify(answer, rng.choice(GOLDS)).error, answer


@pytest.mark.parametrize("seed", range(3))
def test_random_bytes_raise_nothing(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(300):
        texts = [
            rng.randbytes(rng.randint(0, 60)).decode("latin-1"),
            rng.randbytes(40).decode("utf-16", "surrogatepass"),
        ]
        for gold, answer in (texts, texts[::-1], ("8", texts[0]), (texts[1], "8"), (r"\frac12", texts[1])):
            assert not VERIFIER.verify(gold, answer).error


def written(value: int, over: int, rng: random.Random) -> str:
    """A fraction in one of many writings."""
    whole, rest = divmod(abs(value), over)
    forms = [f"{value}/{over}", f"\\frac{{{value}}}{{{over}}}", f"\\dfrac{{{3 * value}}}{{{3 * over}}}"]
    forms += [f"\\left(\\frac{{{-value}}}{{{-over}}}\\right)", f"x = {value} / {over}", f"{value} \\div {over}"]
    if rest and math.gcd(rest, over) == 1:
        sign = "-" if value < 0 else ""
        forms += [f"{sign}{whole}\\frac{{{rest}}}{{{over}}}", f"{sign}{whole} {rest}/{over}"] if whole else []
    if over in (2, 4, 5, 8):
        forms += [str(value / over), f"{100 * value / over}\\%"]
    return rng.choice(forms)


@pytest.mark.parametrize("seed", range(3))
def test_fractions_in_any_writing(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(300):
        value, over = rng.choice([-1, 1]) * rng.randint(1, 60), rng.randint(2, 12)
        gold, answer = f"\\frac{{{value}}}{{{over}}}", written(value, over, rng)
        assert matches(gold, answer), (gold, answer)
        assert not matches(gold, written(value + over * rng.randint(1, 5), over, rng)), gold


def test_long_chains_that_differ_at_their_ends_raise_nothing() -> None:
    """They nest as deeply as they are long, and trees are compared by recursion."""
    assert not VERIFIER.verify("1" + "/1" * 250, "2" + "/1" * 250).error
    assert VERIFIER.verify("60", "1" + "+1" * 59).right
