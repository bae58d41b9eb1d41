"""An instances file over mosaics of scikit-learn's handwritten digits: real pixels, exact masks, and everything that is
odd about COCO. The digits play COCO categories (a written 1 is a "dog"), so that names and plurals are those of COCO.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

CATEGORIES = [  # place: the digit; ids as in COCO, with gaps
    (1, "person", "person"), (18, "dog", "animal"), (17, "cat", "animal"), (3, "car", "vehicle"), (6, "bus", "vehicle"),
    (49, "knife", "kitchen"), (47, "cup", "kitchen"), (20, "sheep", "animal"), (10, "traffic light", "outdoor"),
    (87, "scissors", "indoor"),
]  # fmt: skip
SIZE = 320, 256
DIGITS = load_digits()


def mosaic(number: int, rng: random.Random, crowded: bool = False) -> tuple[Image.Image, list[dict[str, Any]]]:
    """A picture of 2 to 8 digits and their annotations, without ids."""
    canvas = np.full((SIZE[1], SIZE[0], 3), 235, np.uint8)
    things: list[dict[str, Any]] = []
    favourites = rng.sample(range(10), 5)
    for n in range(rng.randint(2, 8)):
        cover = things[0]["bbox"] if n == 1 and number % 2 else None  # the second is drawn on the first
        digit, scale = rng.choice(favourites), 6 if cover else rng.randint(13, 16) if n == 0 else rng.randint(4, 13)
        which = rng.choice([i for i, target in enumerate(DIGITS.target) if target == digit])
        ink = DIGITS.images[which] > 6
        rows, columns = np.where(ink.any(1))[0], np.where(ink.any(0))[0]
        ink = ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        height, width = ink.shape[0] * scale, ink.shape[1] * scale
        x, y = rng.randrange(SIZE[0] - width), rng.randrange(SIZE[1] - height)
        if cover:
            x, y = (int(cover[i] + rng.random() * max(cover[i + 2] - side, 1)) for i, side in ((0, width), (1, height)))
            x, y = min(x, SIZE[0] - width), min(y, SIZE[1] - height)
        touching = [t for t in things if meets((x, y, width, height), t["bbox"])]
        if len(touching) > 1 or (touching and rng.random() < 0.2):
            continue
        colour = [rng.randrange(40, 160) for _ in range(3)]
        grown = np.kron(ink, np.ones((scale, scale), bool))
        canvas[y : y + height, x : x + width][grown] = colour
        things.append(
            {"category_id": CATEGORIES[digit][0], "bbox": [x, y, width, height], "area": int(grown.sum())}
            | {"iscrowd": 0, "segmentation": outline(ink, x, y, scale)}
        )
    if crowded:
        region = np.zeros((SIZE[1], SIZE[0]), bool)
        region[200:250, 10:60] = True
        things.append(
            {"category_id": rng.choice(CATEGORIES)[0], "bbox": [10, 200, 50, 50], "area": 2500, "iscrowd": 1}
            | {"segmentation": {"counts": runs(region), "size": [SIZE[1], SIZE[0]]}}
        )
    return Image.fromarray(canvas), things


def meets(a: tuple[float, ...], b: list[float]) -> bool:
    return a[0] < b[0] + b[2] and b[0] < a[0] + a[2] and a[1] < b[1] + b[3] and b[1] < a[1] + a[3]


def outline(ink: np.ndarray, x: int, y: int, scale: int) -> list[list[float]]:
    """A rectangle for every run of ink in a row: polygons in several parts."""
    parts = []
    for row, line in enumerate(ink):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], line.astype(int), [0]])))
        for first, last in edges.reshape(-1, 2):
            left, right = float(x + first * scale), float(x + last * scale)
            top, bottom = float(y + row * scale), float(y + (row + 1) * scale)
            parts.append([left, top, right, top, right, bottom, left, bottom])
    return parts


def runs(mask: np.ndarray) -> list[int]:
    """Uncompressed run lengths, down the columns, zeros first."""
    flat = mask.T.flatten().astype(int)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flat])))
    return np.diff(np.concatenate([[0], edges, [flat.size]])).tolist()


def corpus(folder: Path, count: int = 60, seed: int = 0) -> tuple[Path, Path]:
    """``(instances.json, folder of images)``; every fifth picture has a crowd, the last two have no annotation."""
    rng, images = random.Random(seed), folder / "val"
    images.mkdir(parents=True)
    data: dict[str, list[dict[str, Any]]] = {"images": [], "annotations": [], "categories": []}
    data["categories"] = [{"id": i, "name": name, "supercategory": kind} for i, name, kind in CATEGORIES]
    for number in range(count):
        picture, things = mosaic(number, rng, crowded=number % 5 == 0)
        image_id = 139 + 7 * number
        name = f"{image_id:012d}.png"
        picture.save(images / name)
        data["images"].append({"id": image_id, "file_name": name, "width": SIZE[0], "height": SIZE[1], "license": 1})
        for thing in things if number < count - 2 else ():
            data["annotations"].append({"id": 1000 + 3 * len(data["annotations"]), "image_id": image_id, **thing})
    path = folder / "instances_digits.json"
    path.write_text(json.dumps(data))
    return path, images
