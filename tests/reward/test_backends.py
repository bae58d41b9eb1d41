"""The real graders, where they are installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mmcredit.reward.backends import Grader
from mmcredit.reward.verdict import Outcome
from mmcredit.types import UserError

MODULES = {"mathruler": ["mathruler", "pylatexenc"], "math_verify": ["math_verify", "latex2sympy2_extended"]}


@pytest.fixture(scope="module", params=MODULES)
def grader(request: pytest.FixtureRequest) -> Iterator[Grader]:
    for module in MODULES[request.param]:
        pytest.importorskip(module)
    made = Grader(f"mmcredit.reward.graders.{request.param}", MODULES[request.param], seconds=20)
    yield made
    made.workers.close()


MEASURED = [  # gold, answer, mathruler, math-verify
    ("0.5", r"\frac12", True, True),
    (r"\frac{2}{3}", "0.667", False, False),
    ("3000", "3,000", True, True),
    ("A", "A. 12 cm", False, False),
    (r"2\sqrt{3}", r"\sqrt{12}", True, True),
    ("x=3", "3", True, True),
    (r"\{1,2,3\}", r"\{3,2,1\}", False, True),
    ("1,2", "2,1", False, True),
    ("(1,2)", "(2,1)", False, False),
    ("1500000", r"1.5\times10^{6}", False, True),
    ("2", "two", False, False),
    ("x^2+2x+1", "(x+1)^2", True, True),
    ("3.14", r"\pi", False, False),
]


def test_they_say_what_was_measured(grader: Grader) -> None:
    for gold, answer, *said in MEASURED:
        assert grader.verify(gold, answer).right is said[list(MODULES).index(grader.name)], (gold, answer)
    assert grader.verify(r"\boxed{7}", "7").right and grader.verify("nan", "nan").outcome is Outcome.UNPARSABLE


def test_a_grader_that_hangs_is_timed_out() -> None:
    pytest.importorskip("math_verify")
    grader = Grader("mmcredit.reward.graders.math_verify", ["math_verify"], seconds=0.5)
    verdict = grader.verify("7", "9^{9^{9^9}}")
    assert (verdict.outcome, verdict.stage, verdict.error) == (Outcome.TIMED_OUT, "math_verify", "timeout")
    grader.workers.close()


def test_a_missing_package_names_the_extra() -> None:
    with pytest.raises(UserError, match=r"needs no_such_package: pip install 'mmcredit\[verify\]'"):
        Grader("mmcredit.reward.graders.mathruler", ["sympy", "no_such_package"])
