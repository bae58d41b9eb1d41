"""VLMEvalKit: files that it can read, and a model on a stub of its base class."""

from __future__ import annotations

import csv
import json
import sys
from abc import abstractmethod
from types import ModuleType

import pandas as pd
import pytest
from tests.integrations.test_chat import ASK, TINY

from mmcredit.data.world.source import World
from mmcredit.evaluation.files import Folder, Prediction
from mmcredit.evaluation.table import Question
from mmcredit.integrations.vlmevalkit import export, register
from mmcredit.types import UserError

ROWS = [
    {
        "index": "3",
        "image": "AAAA" * 9,
        "image_path": "x.png",
        "question": "which\none?",
        "A": "None",
        "B": "=1+1",
        "answer": "B",
    },
    {"index": "4", "image": "3", "image_path": "", "question": "tab\there", "A": "2", "B": "", "answer": "A"},
]
SAID = {"3": '=cmd "quoted"\nB', "4": "None"}


@pytest.fixture
def files(tmp_path):
    path = tmp_path / "MySet.tsv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(ROWS[0]), delimiter="\t", quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(ROWS)
    folder = Folder(tmp_path / "run")
    for place, (name, text) in enumerate(SAID.items()):
        said = [Prediction(name, 0, "other", 1, True), Prediction(name, 1, text, 1, True)]
        folder.add(place, [Question(name, "?", "B")], said)
    return path, folder.path


@pytest.mark.parametrize("form", ["tsv", "xlsx", "json"])
def test_predictions_read_as_the_kit_reads_them(files, tmp_path, form):
    if form == "xlsx":
        pytest.importorskip("openpyxl")
    tsv, folder = files
    path = export(folder, tsv, tmp_path / "work", "mine", form, k=1)
    assert path == tmp_path / "work" / "mine" / f"mine_MySet.{form}"
    read = {
        "tsv": lambda p: pd.read_csv(p, sep="\t"),
        "xlsx": pd.read_excel,
        "json": lambda p: pd.DataFrame(json.load(p.open())),
    }
    table = read[form](path)
    assert list(table.columns) == ["index", "question", "A", "B", "answer", "prediction"]
    assert list(table["index"]) == [3, 4] and table["prediction"][0] == SAID["3"]
    assert table["question"][0] == "which\none?" and table["B"][0] == "=1+1" and pd.isna(table["B"][1])


def test_what_cannot_be_exported_is_said(files, tmp_path):
    tsv, folder = files
    with pytest.raises(UserError, match=r"export.form=pkl must be one of xlsx, tsv, json"):
        export(folder, tsv, tmp_path, "mine", "pkl")
    with pytest.raises(UserError, match="no response number 5"):
        export(folder, tsv, tmp_path, "mine", "tsv", k=5)


def test_missing_openpyxl_is_said(files, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(UserError, match=r"pip install .*export.form=tsv"):
        export(*reversed(files), tmp_path, "mine", "xlsx")


def test_registered_model_answers_the_kits_messages(tmp_path, monkeypatch):
    class BaseModel:
        INTERLEAVE = False

        def __init__(self) -> None:
            self.dump_image_func = None

        @abstractmethod
        def generate_inner(self, message, dataset=None): ...

        def generate(self, message, dataset=None):
            return self.generate_inner(message, dataset)

    modules = {name: ModuleType(name) for name in ("vlmeval", "vlmeval.config", "vlmeval.vlm", "vlmeval.vlm.base")}
    modules["vlmeval.config"].supported_VLM = {}
    modules["vlmeval.vlm.base"].BaseModel = BaseModel
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    register("mine", TINY, max_new_tokens=24)
    model = modules["vlmeval.config"].supported_VLM["mine"]()
    assert isinstance(model, BaseModel) and model.INTERLEAVE
    World("val", 2)[0].images[0].save(tmp_path / "a.png")
    message = [{"type": "image", "value": str(tmp_path / "a.png")}, {"type": "text", "value": ASK}]
    first = model.generate(message, dataset="MMStar")
    assert "boxed" in first and model.generate(message, dataset="MMStar") == first
