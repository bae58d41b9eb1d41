"""The corpora in their real forms on disk, small, with scikit-learn's handwritten digits as pictures."""

from __future__ import annotations

import base64
import csv
import json
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from sklearn.datasets import load_digits

DIGITS = load_digits()
WIDTH, HEIGHT = 64, 32  # of a picture: two digits side by side
LARGE_IMAGES = pa.large_list(pa.struct([("bytes", pa.large_binary()), ("path", pa.large_string())]))
TASKS = ("attr_conjunction", "spatial_chain", "count_exclusion", "cooccur_bait", "multihop_cross", "finegrained",
         "occlusion", "action_state")  # fmt: skip


def picture(index: int) -> Image.Image:
    """Digits ``2 index`` and ``2 index + 1`` of the data set, dark on white."""
    both = Image.new("L", (WIDTH, HEIGHT))
    for place in (0, 1):
        pixels = (255 - DIGITS.images[2 * index + place] * 255 / 16).astype("uint8")
        both.paste(Image.fromarray(pixels).resize((HEIGHT, HEIGHT)), (place * HEIGHT, 0))
    return both.convert("RGB")


def left(index: int) -> str:
    """What the digit on the left of ``picture(index)`` is."""
    return str(DIGITS.target[2 * index])


def encoded(index: int, form: str = "PNG") -> bytes:
    data = BytesIO()
    picture(index).save(data, form)
    return data.getvalue()


def struct(index: int) -> dict[str, Any]:
    return {"bytes": encoded(index), "path": None}


@contextmanager
def cache(folder: Path) -> Iterator[None]:
    """``datasets`` keeps what it converts in this folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", folder)
        yield


def virl39k_rows(count: int = 6) -> list[dict[str, Any]]:
    """The last one is text only."""
    rows = [
        {
            "question": f"<image>What is the digit on the left of picture {i}?",
            "answer": f"\\boxed{{{left(i)}}}",
            "PassRate_32BTrained": 0.5,
            "PassRate_7BBase": (0.25, -1.0, float("nan"), None)[i % 4],
            "category": "(GradeSchool) Counting",
            "source": "Processed",
            "qid": f"Processed-{i}",
            "image": [f"images/Processed-{i}-0.jpg"],
        }
        for i in range(count - 1)
    ]
    text = {"question": "What is 1 + 1?", "answer": "\\boxed{2}", "source": "DeepScaleR", "qid": "DeepScaleR-0"}
    return [*rows, {**rows[0], **text, "image": []}]


def virl39k(folder: Path, rows: Sequence[dict[str, Any]] | None = None, zipped: bool = True) -> Path:
    """``39Krelease.parquet`` with large strings, the pictures in ``images.zip`` or extracted."""
    rows = virl39k_rows() if rows is None else rows
    names = [name for row in rows for name in row["image"]]
    folder.mkdir(parents=True, exist_ok=True)
    if zipped:
        with zipfile.ZipFile(folder / "images.zip", "w") as archive:
            for i, name in enumerate(dict.fromkeys(names)):
                archive.writestr(name, encoded(i, "JPEG"))
    else:
        (folder / "images").mkdir()
        for i, name in enumerate(dict.fromkeys(names)):
            (folder / name).write_bytes(encoded(i, "JPEG"))
    columns = {name: pa.array([row[name] for row in rows], _large(rows, name)) for name in rows[0]}
    pq.write_table(pa.table(columns), folder / "39Krelease.parquet")
    return folder


def _large(rows: Sequence[dict[str, Any]], name: str) -> pa.DataType:
    if name == "image":
        return pa.large_list(pa.large_string())
    return pa.float64() if name.startswith("PassRate") else pa.large_string()


def geometry3k(folder: Path, rows: Sequence[dict[str, Any]] | None = None) -> Path:
    """EasyR1's format in two training shards and one of another split, with large types."""
    if rows is None:
        rows = [
            {"images": [struct(i)], "problem": "<image>Find the digit on the left.", "answer": left(i), "id": i,
             "choices": [left(i), "10", "11", "12"], "ground_truth": "A"}
            for i in range(5)
        ]  # fmt: skip
    (folder / "data").mkdir(parents=True)
    types = {"images": LARGE_IMAGES, "id": pa.int64(), "choices": pa.list_(pa.string())}
    parts = {"train-00000-of-00002": rows[:3], "train-00001-of-00002": rows[3:], "test-00000-of-00001": rows[:1]}
    for name, part in parts.items():
        columns = {key: pa.array([r[key] for r in part], types.get(key, pa.large_string())) for key in rows[0]}
        pq.write_table(pa.table(columns), folder / "data" / f"{name}.parquet")
    return folder


def mmk12(folder: Path) -> Path:
    """One picture a row, under ``image``, as ``datasets`` writes it."""
    rows = [
        {"id": f"k-{i}", "question": "What is the digit on the left?", "answer": f"$${left(i)}$$", "subject": "math",
         "image": struct(i)}
        for i in range(4)
    ]  # fmt: skip
    features = datasets.Features(
        {**{name: datasets.Value("string") for name in rows[0] if name != "image"}, "image": datasets.Image()}
    )
    folder.mkdir(parents=True)
    datasets.Dataset.from_list(rows, features=features).to_parquet(folder / "train-00000-of-00001.parquet")
    return folder


def k12_json(folder: Path) -> Path:
    """MM-Eureka's evaluation file: one JSON list, pictures by path."""
    folder.mkdir(parents=True)
    rows = [
        {"id": i, "question": "What is the digit on the left?", "answer": left(i), "image_path": f"{i}.png"}
        for i in range(3)
    ]
    for i in range(3):
        (folder / f"{i}.png").write_bytes(encoded(i))
    (folder / "k12.json").write_text(json.dumps(rows))
    return folder / "k12.json"


def mmfinereason_rows() -> list[dict[str, Any]]:
    return [
        {"id": i, "image": struct(i), "question": "What is the digit on the left?", "answer": left(i),
         "data_source": "MMK12", "caption": f"two digits, {left(i)} on the left",
         "qwen3vl_235b_thinking_response": f"<think>Is it a 3?</think>It is round.\n<answer>{left(i)}</answer>"}
        for i in range(4)
    ]  # fmt: skip


def mmfinereason(folder: Path, rows: Sequence[dict[str, Any]] | None = None) -> Path:
    rows = mmfinereason_rows() if rows is None else rows
    folder.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), folder / "train-00000-of-00001.parquet")
    return folder


def finevision_row(index: int, turns: int = 2, relevance: int = 5) -> dict[str, Any]:
    texts = [{"user": f"What is the digit on the left? ({turn})", "assistant": left(index)} for turn in range(turns)]
    return {
        "images": [struct(index)], "texts": texts, "source": "ai2d",
        "relevance_ratings": [relevance - turn for turn in range(turns)], "relevance_min": relevance - turns + 1,
        "formatting_ratings": [5] * turns, "formatting_min": 5,
    }  # fmt: skip


def finevision(folder: Path, subsets: dict[str, Sequence[dict[str, Any]]] | None = None) -> Path:
    """Subsets as folders; the second one orders the fields of a turn otherwise."""
    subsets = subsets or {name: [finevision_row(i) for i in range(6)] for name in ("ai2d", "aokvqa")}
    for place, (name, rows) in enumerate(subsets.items()):
        (folder / name).mkdir(parents=True)
        order = reversed if place else iter
        given = [{**r, "texts": [dict(order(list(turn.items()))) for turn in r["texts"]]} for r in rows]
        pq.write_table(pa.Table.from_pylist(given), folder / name / "train-00000-of-00001.parquet")
    return folder


def vg_brutal_rows(images: Sequence[int] = (1, 6, 102)) -> list[dict[str, Any]]:
    """Eight pairs of two rows a picture; the pair ids repeat over pictures."""
    return [
        {
            "pair_id": f"{task}_1", "image_id": image, "image_path": f"VG_100K_2/{image}.jpg", "task_type": task,
            "bbox": [32, 0, 40, 30], "trap_mechanism": "bait", "image_file": f"{image}.jpg",
            "question": "What is the digit at [bbox]?", "answer": "seven" if real else "eight", "gt_present": real,
        }
        for image in images for task in TASKS for real in (True, False)
    ]  # fmt: skip


def vg_brutal(folder: Path, rows: Sequence[Any] | None = None, flat: bool = True) -> Path:
    rows = vg_brutal_rows() if rows is None else rows
    place = folder / "visual_genome" / ("" if flat else "VG_100K_2")
    place.mkdir(parents=True)
    ids = {row["image_id"] for row in rows if isinstance(row, dict)}
    for index, image in enumerate(sorted(ids)):
        (place / f"{image}.jpg").write_bytes(encoded(index, "JPEG"))
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "vg_brutal_pairs.jsonl").write_text("\n".join(lines) + "\n")
    return folder / "vg_brutal_pairs.jsonl"


def based(index: int, form: str = "PNG") -> str:
    return base64.b64encode(encoded(index, form)).decode()


def tsv_rows() -> list[dict[str, str]]:
    """A picture, the same one by reference, two pictures in a list literal, no options."""
    common = {"question": "Which digit is on the left?", "hint": "", "category": "digits", "split": "val"}
    options = {"A": "NA", "B": "None", "C": "1.50", "D": ""}
    several = repr([based(1), based(2)])
    return [
        {"index": "10", "image": based(0), **common, **options, "answer": "A"},
        {"index": "11", "image": "10", **common, **options, "hint": "look,\ntwice", "answer": "C"},
        {"index": "12", "image": several, **common, "A": "", "B": "", "C": "", "D": "", "answer": "true"},
    ]


def tsv(folder: Path, rows: Sequence[dict[str, str]] | None = None) -> Path:
    rows = tsv_rows() if rows is None else rows
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "Digits.tsv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter="\t", quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows)
    return folder / "Digits.tsv"
