"""All eighty categories of COCO in the plural, with article and verb."""

from __future__ import annotations

import pytest

from mmcredit.data.coco.names import be, clean, is_plural, plural, some

EIGHTY = {
    "person": "people", "bicycle": "bicycles", "car": "cars", "motorcycle": "motorcycles", "airplane": "airplanes",
    "bus": "buses", "train": "trains", "truck": "trucks", "boat": "boats", "traffic light": "traffic lights",
    "fire hydrant": "fire hydrants", "stop sign": "stop signs", "parking meter": "parking meters", "bench": "benches",
    "bird": "birds", "cat": "cats", "dog": "dogs", "horse": "horses", "sheep": "sheep", "cow": "cows",
    "elephant": "elephants", "bear": "bears", "zebra": "zebras", "giraffe": "giraffes", "backpack": "backpacks",
    "umbrella": "umbrellas", "handbag": "handbags", "tie": "ties", "suitcase": "suitcases", "frisbee": "frisbees",
    "skis": "skis", "snowboard": "snowboards", "sports ball": "sports balls", "kite": "kites",
    "baseball bat": "baseball bats", "baseball glove": "baseball gloves", "skateboard": "skateboards",
    "surfboard": "surfboards", "tennis racket": "tennis rackets", "bottle": "bottles", "wine glass": "wine glasses",
    "cup": "cups", "fork": "forks", "knife": "knives", "spoon": "spoons", "bowl": "bowls", "banana": "bananas",
    "apple": "apples", "sandwich": "sandwiches", "orange": "oranges", "broccoli": "broccoli", "carrot": "carrots",
    "hot dog": "hot dogs", "pizza": "pizzas", "donut": "donuts", "cake": "cakes", "chair": "chairs",
    "couch": "couches", "potted plant": "potted plants", "bed": "beds", "dining table": "dining tables",
    "toilet": "toilets", "tv": "tvs", "laptop": "laptops", "mouse": "mice", "remote": "remotes",
    "keyboard": "keyboards", "cell phone": "cell phones", "microwave": "microwaves", "oven": "ovens",
    "toaster": "toasters", "sink": "sinks", "refrigerator": "refrigerators", "book": "books", "clock": "clocks",
    "vase": "vases", "scissors": "scissors", "teddy bear": "teddy bears", "hair drier": "hair driers",
    "toothbrush": "toothbrushes",
}  # fmt: skip


def test_all_eighty_plurals():
    assert len(EIGHTY) == 80
    assert {name: plural(name) for name in EIGHTY} == EIGHTY


def test_articles_and_verbs():
    an = {name for name in EIGHTY if some(name).startswith("an ")}
    assert an == {"airplane", "elephant", "umbrella", "apple", "orange", "oven"}
    assert {name for name in EIGHTY if some(name).startswith("any ")} == {"skis", "scissors", "broccoli"}
    assert {name for name in EIGHTY if be(name) == "Are"} == {"skis", "scissors"}
    assert not is_plural("sheep")


OTHERS = {"baby": "babies", "toy": "toys", "box": "boxes", "man": "men", "potato": "potatoes", "policeman": "policemen"}


@pytest.mark.parametrize(("name", "many"), OTHERS.items())
def test_other_words(name, many):
    assert plural(name) == many


def test_names_are_normalised():
    assert clean("  Traffic   Light\n") == "traffic light" and clean("Cafe\u0301") == "caf\u00e9"
