"""Every metric against a case that was computed by hand."""

from __future__ import annotations

import pytest
from tests.evaluation.tables import made, values

from mmcredit.evaluation.metrics import Accuracy, AllRight, OverSamples, WeMath
from mmcredit.types import UserError


def test_accuracy_of_all_and_of_parts():
    table = made([("10", {"task": "a", "skills": "s\nt"}), ("11", {"task": "b", "skills": "t"}), ("01", {"task": "b"})])
    assert values(Accuracy(by=("task", "skills", "absent")), table) == {
        "accuracy": [2 / 3, 2 / 3],
        "accuracy/task=a": [1, 0],
        "accuracy/task=b": [0.5, 1],
        "accuracy/skills=s": [1, 0],
        "accuracy/skills=t": [1, 0.5],
    } | {"accuracy": [round(2 / 3, 12)] * 2}


def test_macro_accuracy_lets_each_part_count_the_same():
    table = made([("1", {"task": "a"}), ("0", {"task": "b"}), ("0", {"task": "b"}), ("1", {"task": "b"})])
    found = values(Accuracy(macro="task"), table)
    assert found == {"accuracy": [0.5], "accuracy_macro": [round((1 + 1 / 3) / 2, 12)]}


def test_hallusion_bench_by_hand():
    """Two sets. Set 0: figures 0 and 1, questions 0 and 1; set 1: figure 0, question 0.

    Repetition 1: of (figure, question) 00, 01, 10, 11 right are 00, 01, 10; set 1 is right: aAcc 4/5, figures 0 of
    set 0 and of set 1 all right: fAcc 2/3; question 0 of both sets: qAcc 2/3. Repetition 2: only 11: 1/5, 0, 0.
    """
    rows = [
        ("10", {"set": 0, "figure": 0, "question": 0}),
        ("10", {"set": 0, "figure": 0, "question": 1}),
        ("10", {"set": 0, "figure": 1, "question": 0}),
        ("01", {"set": 0, "figure": 1, "question": 1}),
        ("10", {"set": 1, "figure": 0, "question": 0}),
    ]
    table = made(rows, ["set"])
    assert values(Accuracy("aAcc"), table)["aAcc"] == [0.8, 0.2]
    assert values(AllRight("fAcc", ["set", "figure"]), table)["fAcc"] == [round(2 / 3, 12), 0]
    assert values(AllRight("qAcc", ["set", "question"]), table)["qAcc"] == [round(2 / 3, 12), 0]


def test_rows_can_be_left_out_of_groups():
    """As the official HallusionBench leaves figure 0 of VS (no picture) out of fAcc."""
    rows = [("0", {"category": "VS", "figure": 0}), ("1", {"category": "VS", "figure": 1})]
    rows += [("0", {"category": "VD", "figure": 0})]
    metric = AllRight("fAcc", ["category", "figure"], without={"category": "VS", "figure": "0"})
    assert values(metric, made(rows)) == {"fAcc": [0.5]}
    assert values(metric, made(rows[:1])) == {}


def test_circular_needs_every_rotation():
    rows = [("111", {"g": 1}), ("110", {"g": 1}), ("101", {"g": 2}), ("101", {"g": 2}), ("001", {"g": 3})]
    assert values(AllRight("circular", ["g"]), made(rows)) == {
        "circular": [round(2 / 3, 12), round(1 / 3, 12), round(2 / 3, 12)]
    }


def test_dyna_math_average_and_worst_case():
    """Two seeds of three variants: the first is right in 3 then 2 of 3 variants, the second in 2 then 3."""
    rows = [("11", {"qid": 1}), ("11", {"qid": 1}), ("10", {"qid": 1}), ("11", {"qid": 2}), ("01", {"qid": 2})]
    rows += [("11", {"qid": 2})]
    table = made(rows, ["qid"])
    assert values(Accuracy("average"), table)["average"] == [round(5 / 6, 12)] * 2
    assert values(AllRight("worst_case", ["qid"]), table) == {"worst_case": [0.5, 0.5]}


def we_math(*problems: str) -> list[tuple[str, dict]]:
    """Problems as grades of steps, then of the whole: ``"110"``: both steps right, the problem wrong."""
    rows = []
    for number, grades in enumerate(problems):
        steps = len(grades) - 1
        names = [*(f"{steps}steps_{i}" for i in range(1, steps + 1)), f"{steps}steps_multi"]
        rows += [(grade, {"ID": number, "key": name}) for grade, name in zip(grades, names, strict=True)]
    return rows


def test_we_math_by_hand():
    """Eight problems: IK 000, 0100, 100; IG 110; mastered 111, 1111; rote: 101 (strict only), 001 (both)."""
    table = made(we_math("000", "0100", "100", "110", "111", "1111", "101", "001"), ["ID"])
    found = {name: value[0] for name, value in values(WeMath(), table).items()}
    assert found == {
        "score_strict": (8 - 3 - 0.5 - 2) / 8,
        "score_loose": (8 - 3 - 0.5 - 1) / 8,
        "complete_mastery_strict": 2 / 8,
        "complete_mastery_loose": 3 / 8,
        "rote_memorization_strict": 2 / 8,
        "rote_memorization_loose": 1 / 8,
        "rm_rate_strict": 2 / 4,
        "rm_rate_loose": 1 / 4,
        "insufficient_knowledge": 3 / 8,
        "inadequate_generalization": 1 / 8,
    }


def test_we_math_of_repetitions_is_computed_in_each():
    first, second = made(we_math("111", "000"), ["ID"]), made(we_math("101", "110"), ["ID"])
    rows = [(a[0] + b[0], a[1]) for a, b in zip(we_math("111", "000"), we_math("101", "110"), strict=True)]
    both = values(WeMath(), made(rows, ["ID"]))
    assert both == {
        name: [value, values(WeMath(), second)[name][0]] for name, (value,) in values(WeMath(), first).items()
    }


@pytest.mark.parametrize("rows", [we_math("111")[:2], [*we_math("111"), we_math("111")[0]], we_math("11")])
def test_we_math_refuses_incomplete_problems(rows):
    with pytest.raises(UserError, match="must have steps"):
        WeMath()(made(rows))


def test_a_metric_names_the_column_that_is_missing():
    with pytest.raises(UserError, match=r"no field 'qid'.*it has: task"):
        AllRight("worst_case", ["qid"])(made([("1", {"task": "a"})]))


def test_over_samples_by_hand():
    """n = 4. Question 0: 1 right of 4; question 1: 3 right. pass@2 = mean(1 - C(3,2)/C(4,2), 1) = mean(1/2, 1);
    worst@2 = mean(0, C(3,2)/C(4,2)) = mean(0, 1/2); maj@4: wrong, right."""
    found = values(OverSamples(), made([("1000", {}), ("0111", {})]))
    assert found == {"pass@2": [0.75], "pass@4": [1], "worst@2": [0.25], "worst@4": [0], "maj@4": [0.5]}
    assert values(OverSamples(), made([("1", {})])) == {}
