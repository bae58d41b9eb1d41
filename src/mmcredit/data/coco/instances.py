"""An ``instances_*.json`` in memory: pictures, categories and what is on each picture, checked row by row."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from mmcredit.data.coco.masks import packed
from mmcredit.data.coco.names import clean
from mmcredit.data.coco.scene import Category, Picture, Scene, Thing, thing
from mmcredit.data.gate import BadRow, Gate, GateReport
from mmcredit.data.sources.fields import CONTROL
from mmcredit.types import UserError

LISTS = ("images", "annotations", "categories")


@dataclass(frozen=True)
class Instances:
    """What a file holds. Ids are compared as text; everything is in the order of the ids, whatever the file's is."""

    pictures: dict[str, Picture]
    categories: dict[str, Category]
    rows: dict[str, list[dict[str, Any]]]  # of each picture with annotations, checked
    reports: tuple[GateReport, ...]  # pictures, annotations
    shown: Counter[str] = field(default_factory=Counter)  # category id -> pictures that have it
    together: Counter[tuple[str, str]] = field(default_factory=Counter)  # both ids, sorted -> pictures

    def __post_init__(self) -> None:
        for rows in self.rows.values():
            found = sorted({str(row["category_id"]) for row in rows})
            self.shown.update(found)
            self.together.update(combinations(found, 2))

    def scenes(self) -> Iterator[Scene]:
        """Every picture with annotations."""
        for key, rows in self.rows.items():
            yield Scene(self.pictures[key], self.things(key, rows))

    def things(self, key: str, rows: Iterable[dict[str, Any]]) -> tuple[Thing, ...]:
        """The annotations of a picture."""
        return tuple(thing(row, self.categories[str(row["category_id"])], self.pictures[key]) for row in rows)


def read(path: Path, on_bad_row: str = "skip") -> Instances:
    """Read and check a file.

    Raises:
        UserError: not an instances file, two categories of a name, no annotation; a bad row under ``raise``.
    """
    data = _loaded(path)
    categories = _categories(data["categories"], path)
    pictures_gate, gate = Gate(f"{path}: images", on_bad_row), Gate(f"{path}: annotations", on_bad_row)
    places = ((n, partial(_picture, row)) for n, row in _once(data["images"], pictures_gate))
    pictures = {str(found.id): found for found in pictures_gate.admit(places)}
    rows: dict[str, list[dict[str, Any]]] = {}
    checks = ((n, partial(_annotation, row, pictures, categories)) for n, row in _once(data["annotations"], gate))
    for row in gate.admit(checks):
        rows.setdefault(str(row["image_id"]), []).append(row)
    if not rows:
        raise UserError(f"{path} has no annotation of a picture that can be used")
    return Instances(pictures, categories, dict(sorted(rows.items())), (pictures_gate.report, gate.report))


def _loaded(path: Path) -> dict[str, list[Any]]:
    try:
        data = json.loads(path.read_bytes(), object_hook=_slim)
    except OSError as error:
        raise UserError(f"instances={path} cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"instances={path} is not valid JSON ({str(error)[:80]})") from None
    missing = [name for name in LISTS if not isinstance(data, dict) or not isinstance(data.get(name), list)]
    if missing:
        raise UserError(f"instances={path} needs the lists images, annotations and categories: no {missing[0]}")
    return data


def _slim(data: dict[str, Any]) -> dict[str, Any]:
    """Polygons packed while the file is parsed: train2017 has 860,001 annotations."""
    if "segmentation" in data:
        data["segmentation"] = packed(data["segmentation"])
    return data


def _once(rows: list[Any], gate: Gate) -> list[tuple[int, Any]]:
    """Rows with their places, by id: of those that share an id, all but the first in the order of their text fail."""
    numbered = [(str(row.get("id")) if isinstance(row, dict) else "", n, row) for n, row in enumerate(rows)]
    counts = Counter(key for key, _, _ in numbered)
    numbered.sort(key=lambda r: (r[0], repr(r[2]) if counts[r[0]] > 1 else ""))
    seen: set[str] = set()
    found = []
    for key, n, row in numbered:
        found.append((n, _Repeated(key) if key in seen else row))
        seen.add(key)
    return found


@dataclass(frozen=True)
class _Repeated:
    key: str


def _fields(row: object, *names: str) -> dict[str, Any]:
    if isinstance(row, _Repeated):
        raise BadRow("duplicate_id", f"id {row.key} is already used")
    if not isinstance(row, dict):
        raise BadRow("malformed", f"an object is needed, this is a {type(row).__name__}")
    for name in names:
        if isinstance(value := row.get(name), bool) or not isinstance(value, int | str):
            raise BadRow("missing_field", f"{name} is missing or neither number nor text")
    return row


def _picture(row: object) -> Picture:
    data = _fields(row, "id", "file_name", "width", "height")
    size = data["width"], data["height"]
    if any(type(n) is not int or n < 1 for n in size):
        raise BadRow("image_size", f"width and height must be whole numbers from 1 on, these are {size}")
    return Picture(data["id"], str(data["file_name"]), *size)


def _annotation(row: object, pictures: dict[str, Picture], categories: dict[str, Category]) -> dict[str, Any]:
    data = _fields(row, "id", "image_id", "category_id")
    if str(data["image_id"]) not in pictures:
        raise BadRow("unknown_image", f"image_id {data['image_id']} is not among the images")
    if str(data["category_id"]) not in categories:
        raise BadRow("unknown_category", f"category_id {data['category_id']} is not among the categories")
    return data


def _categories(rows: list[Any], path: Path) -> dict[str, Category]:
    found: dict[str, Category] = {}
    for row in rows:
        data = row if isinstance(row, dict) else {}
        name, kind = (clean(str(data.get(key) or "")) for key in ("name", "supercategory"))
        if not name or data.get("id") is None:
            raise UserError(f"instances={path}: a category needs id and name, this is {str(row)[:80]}")
        if control := CONTROL.search(f"{name} {kind}"):
            raise UserError(f"instances={path}: a category's name holds the control token {control[0]}")
        if str(data["id"]) in found or any(other.name == name for other in found.values()):
            raise UserError(f"instances={path}: category {data['id']} ({name}) is there twice")
        found[str(data["id"])] = Category(data["id"], name, kind)
    return dict(sorted(found.items()))
