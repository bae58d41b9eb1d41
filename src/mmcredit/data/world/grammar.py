"""The language of responses: writing them, parsing them into claims with spans, and the oracle of claims.

``think``           ``red circle top left . red square bottom right . \\boxed{2}``
``short_evidence``  ``Evidence: red square top left`` newline ``Final answer: 2``

A claim is ``[no] [colour] shape|object [corner]``. It speaks of the image if it names a corner, or denies presence,
or carries a colour *and* a shape in a ``think`` list; a bare phrase of focus ("red circle" as evidence) only says
where to look, and is not a visual claim.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from mmcredit.data.world.scene import COLORS, CORNERS, DIGITS, OTHER_COLORS, OTHER_SHAPES, SHAPES, corner_of
from mmcredit.types import SceneObject


class Verdict(Enum):
    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    NOT_VISUAL = "not a visual claim"


@dataclass(frozen=True, slots=True)
class Claim:
    """A phrase of a response: half-open character span, and what it says (None: not said)."""

    start: int
    end: int
    color: str | None
    shape: str | None
    corner: str | None
    negated: bool
    listed: bool  # stands in a list of things seen, so that naming a thing asserts it

    @property
    def visual(self) -> bool:
        return self.negated or self.corner is not None or (self.listed and bool(self.color and self.shape))


def phrase(color: str | None, shape: str | None, corner: str | None = None) -> str:
    """``red circle top left``; a thing of unknown shape is an ``object``."""
    return " ".join(filter(None, (color, shape or "object", corner)))


_COLOR, _SHAPE = "|".join((*COLORS, *OTHER_COLORS)), "|".join((*SHAPES, *DIGITS, *OTHER_SHAPES))
_CLAIM = re.compile(
    rf"\b(?P<no>no )?(?:(?P<color>{_COLOR}) )?(?P<shape>{_SHAPE}|object)\b"
    rf"(?: (?P<corner>{'|'.join(CORNERS)})\b)?"
)
_EVIDENCE = re.compile(r"^Evidence:", re.IGNORECASE | re.MULTILINE)
_ANSWER = re.compile(r"\\boxed\{|^Final answer:", re.IGNORECASE | re.MULTILINE)


def parse(response: str) -> tuple[Claim, ...]:
    """Every claim before the final answer, in order; text that is no claim is skipped."""
    answer = _ANSWER.search(response)
    listed = not _EVIDENCE.search(response)
    claims = []
    for m in _CLAIM.finditer(response, 0, answer.start() if answer else len(response)):
        shape = None if m["shape"] == "object" else m["shape"]
        claims.append(Claim(m.start(), m.end(), m["color"], shape, m["corner"], bool(m["no"]), listed))
    return tuple(claims)


def judge(claims: Sequence[Claim], objects: Sequence[SceneObject]) -> tuple[Verdict, ...]:
    """The oracle. Every positive claim needs an object of its own: a thing listed twice must be there twice."""
    shown: dict[int, Claim] = {}  # object -> the claim it supports

    def supports(claim: Claim, tried: set[int]) -> bool:
        """Give the claim an object; earlier claims move to another one where they can."""
        for i, o in enumerate(objects):
            if i not in tried and _fits(claim, o):
                tried.add(i)
                if i not in shown or supports(shown[i], tried):
                    shown[i] = claim
                    return True
        return False

    def verdict(claim: Claim) -> Verdict:
        if not claim.visual:
            return Verdict.NOT_VISUAL
        holds = not any(_fits(claim, o) for o in objects) if claim.negated else supports(claim, set())
        return Verdict.SUPPORTED if holds else Verdict.CONTRADICTED

    return tuple(verdict(claim) for claim in claims)


def _fits(claim: Claim, o: SceneObject) -> bool:
    return (
        claim.color in (None, o.color) and claim.shape in (None, o.shape) and claim.corner in (None, corner_of(o.box))
    )


def named(response: str, objects: Sequence[SceneObject]) -> tuple[SceneObject, ...]:
    """The objects that fit a visual claim of something seen, in their order."""
    claims = [claim for claim in parse(response) if claim.visual and not claim.negated]
    return tuple(o for o in objects if any(_fits(claim, o) for claim in claims))


def unsupported(response: str, objects: Sequence[SceneObject]) -> bool:
    """Whether the response carries at least one contradicted claim."""
    return Verdict.CONTRADICTED in judge(parse(response), objects)
