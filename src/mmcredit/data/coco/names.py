"""Category names in sentences: plurals, articles, verbs."""

from __future__ import annotations

import unicodedata

IRREGULAR = {
    "person": "people", "man": "men", "woman": "women", "child": "children", "mouse": "mice", "goose": "geese",
    "foot": "feet", "tooth": "teeth", "knife": "knives", "leaf": "leaves", "shelf": "shelves", "loaf": "loaves",
    "policeman": "policemen", "fireman": "firemen", "snowman": "snowmen", "wolf": "wolves", "calf": "calves",
    "potato": "potatoes", "tomato": "tomatoes", "ox": "oxen",
    "sheep": "sheep", "deer": "deer", "fish": "fish", "broccoli": "broccoli", "skis": "skis", "scissors": "scissors",
}  # fmt: skip
PLURAL_ONLY = {"skis", "scissors"}
UNCOUNTED = {"broccoli"}
KINDS = {  # what "What kind of ... is shown" asks for, where the supercategory does not say it
    "outdoor": "outdoor object", "sports": "sports equipment", "kitchen": "kitchen item",
    "electronic": "electronic device", "indoor": "indoor object",
}  # fmt: skip


def clean(text: str) -> str:
    """Lower case, composed characters, single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).lower().split())


def plural(name: str) -> str:
    """The name's last word in the plural: traffic lights, wine glasses, people."""
    first, _, last = name.rpartition(" ")
    if last in IRREGULAR:
        many = IRREGULAR[last]
    elif last.endswith(("s", "x", "z", "ch", "sh")):
        many = last + "es"
    elif last.endswith("y") and last[-2:-1] not in set("aeiou"):
        many = last[:-1] + "ies"
    else:
        many = last + "s"
    return f"{first} {many}".strip()


def is_plural(name: str) -> bool:
    """Whether a single thing of that name takes a plural verb: skis, scissors."""
    return name.rpartition(" ")[2] in PLURAL_ONLY


def be(name: str) -> str:
    """Is or are, at the beginning of a sentence about one thing."""
    return "Are" if is_plural(name) else "Is"


def some(name: str) -> str:
    """With the indefinite article: a dog, an oven, any skis, any broccoli."""
    if is_plural(name) or name.rpartition(" ")[2] in UNCOUNTED:
        return f"any {name}"
    return f"{'an' if name[:1] in set('aeiou') else 'a'} {name}"
