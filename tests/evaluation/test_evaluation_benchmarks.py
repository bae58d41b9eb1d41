"""Every benchmark's yaml, and the special ones from file to score with responses that were made up."""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import hydra
import pytest
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig
from PIL import Image

import mmcredit.configs
from mmcredit.evaluation.files import Folder, Prediction
from mmcredit.evaluation.generate import generate
from mmcredit.evaluation.score import Benchmark, score
from mmcredit.evaluation.statistics import Bootstrap
from mmcredit.evaluation.table import Question
from mmcredit.types import Sample, UserError

NAMES = sorted(p.stem for p in (Path(mmcredit.configs.__file__).parent / "benchmark").glob("*.yaml"))
PAPERS = {
    "pacg": "mmk12 mathverse dynamath mathvision geometry3k wemath logicvista mmmu_pro clevr_count",
    "evidence_rl": "countbench spatialeval hallusionbench vlmsareblind freak mathvista mmbench mmmu scienceqa",
    "pace": "gsm8k_v logicvista mmmu mathvision mathvista",
    "palmr": "hallusionbench mmstar mmmu mathvista mathverse",
}


def config(name: str, *overrides: str) -> DictConfig:
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        return hydra.compose("evaluate", overrides=[f"benchmark={name}", "run_dir=x", *overrides])


def benchmark(cfg: DictConfig) -> Benchmark:
    part = cfg.benchmark
    scorers, made = (instantiate(part.get(key) or {}, _convert_="all") for key in ("scorers", "fields"))
    return Benchmark(part.name, scorers, made, list(part.get("cluster") or ()), part.get("headline"))


def picture(color: str = "red") -> str:
    data = BytesIO()
    Image.new("RGB", (32, 32), color).save(data, "PNG")
    return base64.b64encode(data.getvalue()).decode()


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.DictWriter(file, names, delimiter="\t", quoting=csv.QUOTE_ALL, restval="")
        out.writeheader()
        out.writerows(rows)
    return path


def scored(
    tmp_path: Path, name: str, rows: Sequence[Mapping[str, Any]], said: Mapping[str, str], *overrides: str
) -> Any:
    """Metrics of both scorers; responses by index."""
    cfg = config(name, f"benchmark.path={write(tmp_path / 'set.tsv', rows)}", *overrides)
    source = instantiate(cfg.benchmark.source, _convert_="all")
    folder = Folder(tmp_path / "out")
    folder.pin({"questions": len(source)})

    def respond(samples: Sequence[Sample]) -> list[Prediction]:
        assert all(sample.question for sample in samples)
        return [Prediction(s.id, 0, said[s.id], 1, True) for s in samples]

    generate(source, respond, folder, 1, 2)
    report = score(folder, benchmark(cfg), "fixed", 1, Bootstrap(50))
    values = {s: {name: m["value"] for name, m in metrics.items()} for s, metrics in report["metrics"].items()}
    assert report["headline"] in values["fixed"]
    return values, folder, source


def test_the_papers_sets_are_there():
    assert {name for names in PAPERS.values() for name in names.split()} | {"world", "jsonl"} == set(NAMES)
    assert [len(names.split()) for names in PAPERS.values()] == [9, 9, 5, 5]


@pytest.mark.parametrize("name", NAMES)
def test_scorers_can_be_made_and_never_raise(name):
    made = benchmark(config(name))
    question = Question("0_0_0_1_2_3", "?", "A", {"A": "x", "B": "y", "answer_type": "float", "index": "0_0_0_1_2_3"})
    for scorer in made.scorers.values():
        for said in ("", "A", "{A}", "\\boxed{7}", "9" * 5000, "\0"):
            assert scorer.grade(question, said).correct in (True, False)
        assert scorer.metrics


def test_hallusion_bench(tmp_path):
    """Figures VD/ocr 1_1 and VS/ocr 1_1 share a name in the kit's groups: one wrong answer costs both there."""
    cells = {"VD_ocr_1_1_1_0": "Yes", "VD_ocr_1_1_1_1": "No", "VS_ocr_1_1_1_0": "Yes", "VS_ocr_0_1_0_0": "No"}
    rows = [
        {"index": i, "question": "?", "answer": a, "category": i[:2], "l2-category": "ocr",
         "image": picture() if "_0_1_0_0" not in i else ""}
        for i, a in cells.items()
    ]  # fmt: skip
    said = {"VD_ocr_1_1_1_0": "Yes.", "VD_ocr_1_1_1_1": "No, no.", "VS_ocr_1_1_1_0": r"yes or no? \boxed{No}"}
    values, folder, _ = scored(tmp_path, "hallusionbench", rows, said)
    assert len(folder.questions) == 3  # the row without a picture is left out
    fixed, official = values["fixed"], values["official"]
    assert (fixed["aAcc"], fixed["fAcc"], fixed["qAcc"]) == pytest.approx((2 / 3, 1 / 2, 2 / 3))
    assert (official["aAcc"], official["fAcc"], official["qAcc"]) == pytest.approx((2 / 3, 0, 1 / 2))
    assert (fixed["aAcc/family=VD"], fixed["aAcc/family=VS"]) == (1, 0)
    said["VS_ocr_0_1_0_0"] = "No"
    more = tmp_path / "more"
    more.mkdir()
    values, folder, source = scored(more, "hallusionbench", rows, said, "benchmark.source.text_only=true")
    assert len(folder.questions) == 4 and source[3].images == () and values["fixed"]["aAcc"] == 0.75


def test_mmbench_circular(tmp_path):
    """Question 1 is right under both rotations, question 2 under one of two; rotations share the picture."""
    rows = [
        {
            "index": 1,
            "question": "?",
            "A": "cat",
            "B": "None",
            "answer": "A",
            "image": picture("blue"),
            "category": "x",
        },
        {"index": 1000001, "question": "?", "A": "None", "B": "cat", "answer": "B", "image": "1", "category": "x"},
        {"index": 2, "question": "?", "A": "1.50", "B": "2", "answer": "A", "image": picture(), "category": "y"},
        {"index": 1000002, "question": "?", "A": "2", "B": "1.50", "answer": "B", "image": "2", "category": "y"},
    ]
    said = {"1": "A", "1000001": "cat", "2": "1.50", "1000002": "I think option a"}
    values, folder, source = scored(tmp_path, "mmbench", rows, said)
    assert values["fixed"]["circular"] == values["official"]["circular"] == 0.5
    assert values["fixed"]["accuracy"] == 0.75
    assert json.loads((folder.path / "scores.json").read_text())["headline"] == "circular"
    assert source[1].images[0].getpixel((0, 0)) == (0, 0, 255)
    assert "A. 1.50\nB. 2" in folder.questions[2].question


def test_math_vista_types(tmp_path):
    common = {"image": picture(), "question": "?", "task": "geometry", "skills": "['algebra', 'geometry']"}
    rows = [
        {**common, "index": 1, "question_type": "multi_choice", "choices": "['3/11', '6/11']", "answer": "6/11",
         "answer_option": "B", "answer_type": "text"},
        {**common, "index": 2, "question_type": "free_form", "choices": "", "answer": "14", "answer_type": "integer"},
        {**common, "index": 3, "question_type": "free_form", "answer": "1.2", "answer_type": "float"},
        {**common, "index": 4, "question_type": "free_form", "answer": "[1, 2]", "answer_type": "list"},
    ]  # fmt: skip
    said = {"1": "It is 6/11.", "2": "The number missing is 14.", "3": "1.20", "4": r"\boxed{[1, 2]}"}
    values, *_ = scored(tmp_path, "mathvista", rows, said)
    assert values["official"]["accuracy"] == 0.5 and values["fixed"]["accuracy"] == 0.75
    assert values["fixed"]["accuracy/skills=algebra"] == values["fixed"]["accuracy/task=geometry"] == 0.75


def test_vlms_are_blind(tmp_path):
    cases = {
        "Olympic Counting - Circles": ("1", "10"),
        "Circled Letter": ("r", "{R}"),
        "Counting Grid - Blank Grids": ("3,4", "rows={3} columns={4}"),
        "Touching Circles": ("Yes", "Eyes do not touch. No."),
    }
    rows = [{"index": i, "question": "?", "task": task, "answers": gold, "image": picture()}
            for i, (task, (gold, _)) in enumerate(cases.items())]  # fmt: skip
    rows.append({**rows[0], "index": 9, "answers": "10"})
    said = {str(i): response for i, (_, response) in enumerate(cases.values())} | {"9": "{10}"}
    values, *_ = scored(tmp_path, "vlmsareblind", rows, said)
    by_task = {name.rpartition("=")[2]: value for name, value in values["fixed"].items() if "=" in name}
    assert by_task == {"Olympic Counting - Circles": 0.5, "Circled Letter": 1, "Counting Grid - Blank Grids": 1,
                       "Touching Circles": 0}  # fmt: skip
    assert values["fixed"]["accuracy_macro"] == pytest.approx(2.5 / 4)
    official = {name.rpartition("=")[2]: value for name, value in values["official"].items() if "=" in name}
    assert official == {"Olympic Counting - Circles": 1, "Circled Letter": 0, "Counting Grid - Blank Grids": 1,
                        "Touching Circles": 1}  # fmt: skip


def test_gsm8k_v_forms(tmp_path):
    row = {"index": 1, "answer": "1234", "original_question": "text alone?", "modify_scene_related_question": "beside?",
           "image": f"['{picture()}', '{picture('blue')}']", "category": "x", "subcategory": "y"}  # fmt: skip
    values, folder, source = scored(tmp_path, "gsm8k_v", [row], {"1": "FINAL ANSWER: 1,234"})
    assert (values["fixed"]["accuracy"], values["official"]["accuracy"]) == (1, 0)
    assert folder.questions[0].question.startswith("The pictures hold") and len(source[0].images) == 2
    for column, pictures in (("original_question", False), ("modify_scene_related_question", True)):
        overrides = [f"benchmark.path={tmp_path}/set.tsv", f"benchmark.source.question={column}",
                     "benchmark.source.fixed_question=null", f"benchmark.source.pictures={pictures}"]  # fmt: skip
        (sample,) = instantiate(config("gsm8k_v", *overrides).benchmark.source, _convert_="all")
        assert (sample.question, len(sample.images)) == (row[column], 2 * pictures)


def test_mmmu_validation_and_open_questions(tmp_path):
    rows = [
        {"index": "dev_1", "question": "?", "A": "x", "B": "y", "answer": "A", "image": picture(), "split": "dev"},
        {"index": "validation_1", "question": "<image 1> and <image 2>?", "A": "x", "B": "y", "answer": "A",
         "image": f"['{picture()}', '{picture()}']", "split": "validation"},
        {"index": "validation_2", "question": "How many?", "answer": "24.32", "image": picture(),
         "split": "validation"},
    ]  # fmt: skip
    said = {"validation_1": "A", "validation_2": "It is 24.32 or more"}
    values, folder, source = scored(tmp_path, "mmmu", rows, said)
    assert [q.id for q in folder.questions] == ["validation_1", "validation_2"] and len(source[0].images) == 2
    assert (values["fixed"]["accuracy"], values["official"]["accuracy"]) == (0.5, 1)


def test_we_math_and_logic_vista(tmp_path):
    rows = [
        {
            "index": i,
            "question": "?",
            "A": "x",
            "B": "y",
            "answer": "A",
            "image": picture(),
            "ID": "p",
            "key": f"2steps_{k}",
        }
        for i, k in enumerate(["1", "2", "multi"])
    ]
    values, *_ = scored(tmp_path, "wemath", rows, {"0": "A", "1": "A", "2": "<Answer>: B"})
    assert values["fixed"]["accuracy"] == pytest.approx(2 / 3) and values["fixed"]["inadequate_generalization"] == 1
    assert values["official"]["score_strict"] == values["fixed"]["score_strict"] == 0.5
    logic = tmp_path / "logic"
    logic.mkdir()
    rows = [{"index": 1, "question": "?", "answer": "A, D", "skill": "inductive,spatial", "image": picture()}]
    values, *_ = scored(logic, "logicvista", rows, {"1": r"\boxed{D, A}"})
    assert values["fixed"]["accuracy/skill=spatial"] == 1 and values["official"]["accuracy"] == 0


def test_math_verse_versions_and_dyna_math(tmp_path):
    rows = [
        {"index": i, "problem_index": 7, "problem_version": v, "question": "? A:1 B:2", "answer": "B",
         "image": picture(), "question_type": "multi-choice",
         "metadata": "{'subject': 'Plane', 'subfield': 'Area'}"}
        for i, v in enumerate(["Text Dominant", "Vision Only"])
    ]  # fmt: skip
    values, *_ = scored(tmp_path, "mathverse", rows, {"0": "The answer is B.", "1": "A"})
    assert (values["fixed"]["accuracy/problem_version=Text Dominant"], values["fixed"]["accuracy/subject=Plane"]) == (
        1,
        0.5,
    )
    dyna = tmp_path / "dyna"
    dyna.mkdir()
    rows = [{"index": i, "qid": 1 + i // 2, "varid": i % 2, "question": "?", "answer": "2.5", "answer_type": "float",
             "image": picture()} for i in range(4)]  # fmt: skip
    values, *_ = scored(dyna, "dynamath", rows, {"0": "2.5", "1": "2.5005", "2": "2.5", "3": "2.6"})
    assert (values["fixed"]["accuracy"], values["fixed"]["worst_case"]) == (0.75, 0.5)
    assert (values["official"]["accuracy"], values["official"]["worst_case"]) == (0.75, 0.5)


def test_mmmu_pro_joins_both_parts(tmp_path):
    row = {"index": "test_1", "question": "?", "A": "x", "B": "y", "answer": "A", "image": picture(), "category": "c"}
    write(tmp_path / "MMMU_Pro_10c.tsv", [row, {**row, "index": "test_2"}, {**row, "index": "test_3"}])
    write(tmp_path / "MMMU_Pro_V.tsv", [row])
    source = instantiate(config("mmmu_pro", f"benchmark.path={tmp_path}").benchmark.source, _convert_="all")
    samples = [source[i] for i in range(len(source))]
    assert [s.id for s in samples] == ["standard/test_1", "standard/test_2", "standard/test_3", "vision/test_1"]
    assert samples[3].question == "Answer the multiple-choice question in the image." and "A. x" in samples[0].question
    assert samples[3].meta["index"] == "test_1"
    with pytest.raises(IndexError):
        source[4]


def test_missing_columns_and_bad_rows_end_with_a_reason(tmp_path):
    row = {"index": 1, "question": "?", "A": "x", "B": "y", "answer": "A", "image": "no base64!" * 20}
    with pytest.raises(InstantiationException, match="picture is no base64") as caught:
        scored(tmp_path, "mmstar", [row], {})
    assert isinstance(caught.value.__cause__, UserError)
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(UserError, match="no field 'ID'"):
        scored(other, "wemath", [{**row, "image": picture()}], {"1": "A"})
