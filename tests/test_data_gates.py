"""A run over a file with bad rows: what is left trains, the report says what is not, before the first step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from real_files import BAD, rotated, saved, scene
from test_fit import SMALL, config

from mmcredit.fit import fit
from mmcredit.launch import user_error
from mmcredit.module import CreditModule

RUN = [*(option for option in SMALL if "data.val." not in option), "data=jsonl", "callbacks=[]", "steps=1"]


def rows(folder: Path) -> Path:
    """Six good rows, one of a photograph on its side and one with pictures between words; and bad ones."""
    good: list[dict[str, Any]] = [{"image": f"{i}.png", "question": "what color?", "answer": "red"} for i in range(4)]
    for i in range(4):
        (folder / f"{i}.png").write_bytes(saved(scene((60 + i, 40)), "PNG"))
    (folder / "turned.jpg").write_bytes(rotated(size=(90, 60)))
    good.append({"image": "turned.jpg", "question": "what color?", "answer": "red", "bbox": [5, 5, 30, 20]})
    good.append({"images": ["0.png", "1.png"], "question": "is <image> like <image>?", "answer": "yes"})
    bad: list[dict[str, Any]] = []
    for name in ("half a JPEG", "empty file", "HTML page as .jpg", "decompression bomb", "1x500"):
        (folder / f"{name}.jpg").write_bytes(BAD[name][0])
        bad.append({"image": f"{name}.jpg", "question": "what?", "answer": "a"})
    bad.append({"image": "0.png", "question": "<image><image>?", "answer": "a"})
    bad.append({"question": "why? " * 3000, "answer": "a", "id": "endless"})
    path = folder / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in [*good, *bad]))
    return path


def test_bad_rows_are_left_out_and_reported_before_the_first_step(tmp_path, monkeypatch, capsys):
    path, seen, step = rows(tmp_path), [], CreditModule.training_step

    def watched(module, dataloader_iter):
        seen.append((tmp_path / "run" / "data_report.json").exists())
        step(module, dataloader_iter)

    monkeypatch.setattr(CreditModule, "training_step", watched)
    fit(config(tmp_path / "run", *RUN, f"data.path={path}", "data.on_bad_row=skip"))
    assert seen == [True]
    report = json.loads((tmp_path / "run" / "data_report.json").read_text())["train"]
    assert (report["read"], report["kept"], report["samples"]) == (13, 6, 6)
    assert report["dropped"] == {
        "image_truncated": 1, "image_empty": 1, "image_not_an_image": 1, "image_bomb": 1, "image_aspect": 1,
        "placeholder_count": 1, "prompt_too_long": 1,
    }  # fmt: skip
    assert report["answer_kinds"] == {"text": 5, "yes_no": 1}
    assert report["columns"] == {"question": "question", "answer": "answer", "images": "image", "bbox": "bbox"} | {
        "id": "id"
    }
    assert "'endless'" in report["examples"]["prompt_too_long"][0]
    assert "prompt_too_long 1" in capsys.readouterr().out
    assert (tmp_path / "run" / "data_report.md").read_text().startswith("# Data")


def test_a_bad_row_stops_the_run_before_the_model_is_loaded(tmp_path, monkeypatch):
    path = rows(tmp_path)
    monkeypatch.setattr("mmcredit.models.load.load_policy", lambda **options: pytest.fail("the model was loaded"))
    lines = path.read_text().splitlines()
    for keep, words in (
        (slice(0, 7), "half a JPEG.jpg cannot be read"),
        ([*range(6), 12], "above data.max_prompt_tokens=4,096"),
    ):
        chosen = lines[keep] if isinstance(keep, slice) else [lines[i] for i in keep]
        path.write_text("\n".join(chosen))
        with pytest.raises(Exception) as error:
            fit(config(tmp_path / "run", *RUN, f"data.path={path}"))
        assert words in str(user_error(error.value))


def test_when_every_row_is_bad_the_reasons_are_said(tmp_path):
    path = rows(tmp_path)
    path.write_text("\n".join(path.read_text().splitlines()[6:]))
    with pytest.raises(Exception) as error:
        fit(config(tmp_path / "run", *RUN, f"data.path={path}", "data.on_bad_row=skip"))
    message = str(user_error(error.value))
    assert "of 7 rows all were dropped" in message and "image_bomb 1" in message
