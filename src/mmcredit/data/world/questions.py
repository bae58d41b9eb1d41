"""Four question families and the language prior that a model can use instead of looking.

For every question text there is one *prior answer*, fixed by tables ("what color is the triangle?" -> red). A split
decides how the true answer is drawn: ``train`` gives the prior answer with probability ``prior`` (else one of the
others), ``val`` draws all answers alike, ``counter_prior`` never gives the prior answer. Objects that do not matter
for the question follow the same law, so "triangles are mostly red" holds of the pictures, too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mmcredit.data.world.scene import CORNERS, GRID, MAX_DISTRACTORS, MAX_OBJECTS, Cell, cells_in, reading_order
from mmcredit.data.world.vocabulary import COUNTS, WORLD, Vocabulary
from mmcredit.types import SceneObject

SPLITS: dict[str, Callable[[float], float]] = {  # share of the prior answer, beside an even share of the others
    "train": lambda prior: prior,
    "val": lambda prior: -1.0,
    "counter_prior": lambda prior: 0.0,
}


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its true answer, the scene, the objects that matter (primary first in reading order)."""

    family: str
    text: str
    answer: str
    prior_answer: str
    options: tuple[str, ...]
    objects: tuple[SceneObject, ...]
    relevant: tuple[SceneObject, ...]
    focus: str  # what is asked about: "red circle", "red object", "triangle"


class Draw:
    """Draws one question and its scene; holds the generator, the law of the split, and what there is to see."""

    def __init__(self, rng: random.Random, prior_share: float, words: Vocabulary = WORLD) -> None:
        self.rng, self.words = rng, words
        self.prior_share = prior_share  # -1: all answers alike

    def choose(self, options: Sequence[str], prior: str) -> str:
        """One of the options, by the law of the split."""
        if self.prior_share < 0:
            return self.rng.choice(list(options))
        if self.rng.random() < self.prior_share:
            return prior
        return self.rng.choice([o for o in options if o != prior])

    def distractors(self, cells: list[Cell], taken: int, allowed: Callable[[str, str], bool]) -> list[SceneObject]:
        """Objects that leave the answer as it is, so that the scene has 2-7 objects."""
        low, high = max(2 - taken, 0), min(MAX_OBJECTS - taken, MAX_DISTRACTORS)
        found: list[SceneObject] = []
        for cell in self.rng.sample(cells, self.rng.randint(low, high)):
            for _ in range(20):
                shape = self.rng.choice(self.words.shapes)
                color = self.color_of(shape)
                if allowed(shape, color):
                    found.append(self.place(shape, color, cell))
                    break
        return found

    def place(self, shape: str, color: str, cell: Cell) -> SceneObject:
        return self.words.place(self.rng, shape, color, cell)

    def color_of(self, shape: str) -> str:
        return self.choose(self.words.colors, self.words.prior_color[shape])

    def cells(self) -> list[Cell]:
        every = [(column, row) for column in range(GRID) for row in range(GRID)]
        self.rng.shuffle(every)
        return every

    def counting(self) -> Question:
        words, by_color = self.words, self.rng.random() < 0.5
        kind = self.rng.choice(words.colors if by_color else words.shapes)
        prior = words.prior_count[kind]
        answer = self.choose(COUNTS, prior)
        cells, n = self.cells(), int(answer)
        if by_color:
            counted = [self.place(self.choose(words.shapes, words.prior_shape[kind]), kind, c) for c in cells[:n]]
        else:
            counted = [self.place(kind, self.color_of(kind), c) for c in cells[:n]]
        others = self.distractors(cells[n:], n, lambda shape, color: kind not in (shape, color))
        text = words.count_color.format(kind) if by_color else f"how many {words.plural(kind)} are there?"
        focus = f"{kind} object" if by_color else kind
        return self.question("counting", text, answer, prior, COUNTS, counted, others, focus)

    def attribute(self) -> Question:
        words, cells = self.words, self.cells()
        if self.rng.random() < 0.5:
            shape = self.rng.choice(words.shapes)
            options, prior = words.colors, words.prior_color[shape]
            answer = self.choose(options, prior)
            target = self.place(shape, answer, cells[0])
            others = self.distractors(cells[1:], 1, lambda s, c: s != shape)
            return self.question(
                "attribute", f"what color is the {shape}?", answer, prior, options, [target], others, shape
            )
        color = self.rng.choice(words.colors)
        options, prior = words.shapes, words.prior_shape[color]
        answer = self.choose(options, prior)
        target = self.place(answer, color, cells[0])
        others = self.distractors(cells[1:], 1, lambda s, c: c != color)
        text, focus = words.which_shape.format(color), f"{color} object"
        return self.question("attribute", text, answer, prior, options, [target], others, focus)

    def spatial(self) -> Question:
        shape = self.rng.choice(self.words.shapes)
        color, prior = self.color_of(shape), self.words.prior_corner[shape]
        answer = self.choose(CORNERS, prior)
        cell = self.rng.choice(cells_in(answer))
        target = self.place(shape, color, cell)
        free = [c for c in self.cells() if c != cell]
        others = self.distractors(free, 1, lambda s, c: (s, c) != (shape, color))
        text, focus = f"which corner is the {color} {shape} in?", f"{color} {shape}"
        return self.question("spatial", text, answer, prior, CORNERS, [target], others, focus)

    def presence(self) -> Question:
        shape, options = self.rng.choice(self.words.shapes), ("yes", "no")
        usual, color = self.rng.random() < 0.5, self.words.prior_color[shape]
        if not usual:
            color = self.rng.choice([c for c in self.words.colors if c != color])
        prior = "yes" if usual else "no"
        answer = self.choose(options, prior)
        cells = self.cells()
        target = [self.place(shape, color, cells[0])] if answer == "yes" else []
        others = self.distractors(cells[1:], len(target), lambda s, c: (s, c) != (shape, color))
        text, focus = f"is there {'an' if color == 'orange' else 'a'} {color} {shape}?", f"{color} {shape}"
        return self.question("presence", text, answer, prior, options, target, others, focus)

    def question(
        self,
        family: str,
        text: str,
        answer: str,
        prior: str,
        options: tuple[str, ...],
        relevant: list[SceneObject],
        others: list[SceneObject],
        focus: str,
    ) -> Question:
        objects = tuple(self.rng.sample(relevant + others, len(relevant) + len(others)))
        return Question(family, text, answer, prior, options, objects, reading_order(relevant), focus)


FAMILIES: dict[str, Callable[[Draw], Question]] = {
    "counting": Draw.counting,
    "attribute": Draw.attribute,
    "spatial": Draw.spatial,
    "presence": Draw.presence,
}
