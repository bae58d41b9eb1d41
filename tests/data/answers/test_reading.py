from __future__ import annotations

import pytest
from tests.reward.pairs import PAIRS

from mmcredit.data.answers import Kind, answer_kind, read, same_key, unbox
from mmcredit.data.answers.text import clean


@pytest.mark.parametrize(
    ("gold", "kind"),
    [
        ("A", Kind.LETTER),
        ("(C)", Kind.LETTER),
        ("B. red", Kind.LETTER),
        ("A, D", Kind.LETTERS),
        ("Yes", Kind.YES_NO),
        ("12", Kind.NUMBER),
        ("5 cm", Kind.NUMBER),
        ("17^\\circ", Kind.NUMBER),
        ("50%", Kind.NUMBER),
        ("two", Kind.NUMBER),
        ("$$6$$", Kind.NUMBER),
        ("\\boxed{6}", Kind.NUMBER),
        ("2\\sqrt{3}", Kind.NUMBER),
        ("x^2+1", Kind.EXPRESSION),
        ("$2\\sin(2x-\\frac{\\pi}{6})$", Kind.EXPRESSION),
        ("1,2", Kind.LIST),
        ("x=1 or x=2", Kind.LIST),
        ("(1,2)", Kind.TUPLE),
        ("[0,1)", Kind.INTERVAL),
        ("(-\\infty,1)", Kind.INTERVAL),
        ("\\{1,2\\}", Kind.SET),
        ("[0,1)\\cup(2,3]", Kind.UNION),
        ("\\begin{pmatrix}1\\\\2\\end{pmatrix}", Kind.MATRIX),
        ("x=5", Kind.EQUATION),
        ("x>5", Kind.INEQUALITY),
        ("2:3", Kind.RATIO),
        ("(1) 2 (2) 3", Kind.PARTS),
        ("red cube", Kind.TEXT),
        ("两个", Kind.TEXT),
        ("\\int x\\,dx", Kind.FORMULA),
        ("", Kind.UNPARSABLE),
        ("  ", Kind.UNPARSABLE),
        ("\\boxed{}", Kind.UNPARSABLE),
        ("nan", Kind.UNPARSABLE),
        ("None", Kind.UNPARSABLE),
        ("???", Kind.UNPARSABLE),
        (">", Kind.FORMULA),
        ("\\frac{1}{2", Kind.UNPARSABLE),
        ("\\boxed{6", Kind.UNPARSABLE),
    ],
)
def test_kinds(gold: str, kind: Kind) -> None:
    assert answer_kind(gold) is kind


@pytest.mark.parametrize(
    ("gold", "inner"),
    [
        ("\\boxed{6}", "6"),
        ("$\\boxed{6}$", "6"),
        ("$$\\boxed{ \\frac{1}{2} }$$", "\\frac{1}{2}"),
        ("\\boxed {6}", "6"),
        ("\\boxed{\\boxed{6}}", "\\boxed{6}"),
        ("\\boxed{\\{1,2\\}}", "\\{1,2\\}"),
        ("\\boxed{a\\}b}", "a\\}b"),
        ("\\boxed{6} cm", "\\boxed{6} cm"),
        ("\\boxed{6}\\boxed{7}", "\\boxed{6}\\boxed{7}"),
        ("x=\\boxed{6}", "x=\\boxed{6}"),
        ("\\boxed{6", "\\boxed{6"),
        ("6", "6"),
        ("", ""),
    ],
)
def test_exactly_one_outer_box_is_taken_off(gold: str, inner: str) -> None:
    assert unbox(gold) == inner


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("\\text{ red } cube", "red cube"),
        ("\\left( 1,2 \\right)", "( 1,2 )"),
        ("60^{\\circ}", "60°"),
        ("**7**", "7"),
        ("\\text{\\textbf{a}}", "a"),
        ("１２", "12"),
        ("x²", "x^{2}"),
        ("5 ..", "5"),
        ("\\color{red}{7}", "7"),
        ("$", ""),
    ],
)
def test_clean(text: str, want: str) -> None:
    assert clean(text) == want


def test_cleaning_twice_changes_nothing_more() -> None:
    texts = {text for pairs in PAIRS.values() for pair in pairs for text in pair[:2] if "$" not in text}
    assert [text for text in texts if clean(clean(text)) != clean(text)] == []


def test_long_texts_are_read_in_no_time() -> None:
    for text in ("{" * 100_000, "\\text{" * 50_000, "9" * 5_000, "x " * 50_000, "\ufdfa" * 50_000):
        assert read(text).kind in (Kind.TEXT, Kind.NUMBER)


def test_same_key() -> None:
    assert same_key("0.50") == same_key("1/2") == same_key("\\frac12") == "1/2"
    assert same_key("A") == same_key("(a)") != same_key("B")
    assert same_key("Red cube.") == "red cube" and same_key("nan") == same_key("") == ""
    assert same_key("5 cm") != same_key("5 m") and same_key("50%") != same_key("50")
