"""Graders of other frameworks, as they call them. Run in a worker: they may hang, and evaluate what they are given."""

from __future__ import annotations


def mathruler(gold: str, answer: str) -> bool:
    """EasyR1, verl's geometry3k, PAPO, VPPO."""
    from mathruler.grader import grade_answer

    return bool(grade_answer(answer, gold))


def math_verify(gold: str, answer: str) -> bool | None:
    """The gold answer in a box, as verl does it; None where either cannot be parsed."""
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

    latex = LatexExtractionConfig()
    sides = [
        parse(f"\\boxed{{{text}}}", extraction_config=how, parsing_timeout=None, raise_on_error=True)
        for text, how in ((gold, [latex]), (answer, [ExprExtractionConfig(), latex]))
    ]
    if not all(sides):
        return None
    return bool(verify(*sides, timeout_seconds=None, raise_on_error=True))
