"""A claim router of cue words, for real text without a server.

Limits: English; a clause is judged by its words, not by its grammar, so that what is seen but said without a cue word
is missed ("it opens upwards" is found, "he smiles" is not), and a cue word in another sense misleads ("that is right").
Abbreviations ("Fig. 3") end a clause. In doubt a clause is no direct claim.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mmcredit.services.claims import MAX_SPANS, Assertion, ClaimSpan, Group, Routing
from mmcredit.services.router import LocalRouter
from mmcredit.types import Sample, Span


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PICTURE = words("image figure diagram chart graph plot picture photo photograph table map drawing illustration scene")
SAYING = words(
    "is are was were has have there shows show shown showing depicts depict displays display contains contain includes "
    "see seen observe visible reads labeled labelled marked drawn shaded located positioned placed lies sits stands "
    "wears holds opens intersects crosses touches passes points increases decreases rises falls peaks ranges stays "
    "represents read notice identify spot list"
)
COLORS = words("red green blue yellow orange purple pink brown black white gray grey cyan magenta beige golden silver")
THINGS = words(
    "circle circles square squares triangle triangles rectangle rectangles cube cubes sphere spheres cylinder "
    "cylinders object objects shape shapes line lines point points angle angles vertex arrow arrows dot dots star "
    "stars person people man woman car cars sign text"
)
PLACES = words(
    "left right top bottom above below between beside behind under corner center centre middle inside outside upper "
    "lower foreground background adjacent upwards downwards upward downward horizontal vertical parallel perpendicular"
)
SIZES = words("larger smaller bigger taller shorter longer wider largest smallest biggest tallest shortest longest")
PARTS = words("axis axes bar bars legend label labels slice curve column row peak tick ticks caption title vertex arc")
NUMBERS = words("one two three four five six seven eight nine ten eleven twelve no several")
INFERENCE = words(
    "therefore so thus hence because since implies imply implying indicates indicate indicating means meaning suggests "
    "suggesting consequently conclude conclusion substituting substitute calculate compute solve equation expression "
    "formula theorem property rule gives total sum product equals must then follows using area perimeter volume "
    "circumference slope ratio percentage probability average difference"
)
UNCERTAIN = words("maybe might may possibly perhaps probably likely seems seem appears appear could unclear guess")
HYPOTHETICAL = words("if suppose supposing assume assuming let would whether imagine consider")
OPTION = words("option options choice choices")

_BREAK = re.compile(
    r"(?<=[.!?])\s|[\n;]|\s(?=(?:so|therefore|thus|hence|because|since|which means|which implies|indicating|implying"
    r"|meaning|suggesting|and there|but)\b)",
    re.IGNORECASE,
)
_MISSING = re.compile(
    r"\b(?:not|cannot|can't|unable)\b.{0,30}\b(?:given|provided|known|specified|determined?)\b|\b(?:are )?given that\b",
    re.IGNORECASE,
)
_ANSWER = re.compile(r"\\boxed|\bfinal answer|\banswer(?: is|:)|<answer>", re.IGNORECASE)
_COMPUTED = re.compile(r"\d ?[-+*/×÷^] ?\d|=|⇒|→|≈|\\(?:frac|times|cdot|sqrt|Rightarrow|implies|approx)\b")
_WORD = re.compile(r"[^\W\d_]+|\d+")
_EDGE = " \t\r\n,.;:!*-•#>\"'"  # cut from both ends of a clause; a question keeps its mark


class RulesRouter(LocalRouter):
    """Routes the clauses that say something visible, by the tables above.

    Args:
        delay_seconds: answers are held back for that long.
    """

    name = "router=rules"

    def route(self, sample: Sample, response: str) -> Routing:
        """Clauses before the final answer; when there are too many, visual ones first."""
        question = spaced(sample.question)
        found = [
            (classify(response[start:end], question, bool(sample.images)), (start, end))
            for start, end in clauses(response)
        ]
        visual_first = sorted(found, key=lambda pair: not pair[0].visual)
        kept = sorted(visual_first[:MAX_SPANS], key=lambda pair: pair[1])
        return Routing(tuple(kept), dropped=len(found) - len(kept))


def clauses(response: str) -> Iterator[Span]:
    """Half-open intervals of the clauses of two words or more, without punctuation at their ends; those of the final
    answer are left out."""
    cuts = [0, *(c for m in _BREAK.finditer(response) for c in (m.start(), m.end())), len(response)]
    for start, end in zip(cuts[::2], cuts[1::2], strict=True):
        text = response[start:end]
        inner = text.strip(_EDGE)
        if " " in inner and not _ANSWER.search(text):
            first = start + len(text) - len(text.lstrip(_EDGE))
            yield first, first + len(inner)


def classify(clause: str, question: str, has_image: bool = True) -> ClaimSpan:
    """The span of a clause.

    Args:
        question: the question's words, see ``spaced``.
    """
    said = frozenset(spaced(clause).split())
    visual = has_image and visible(said) and not _MISSING.search(clause)
    inferred = bool(said & INFERENCE or (_COMPUTED.search(clause) and not said & PICTURE))
    group: Group = ("derived_vef" if inferred else "direct_vef") if visual else "non_vef_control"
    return ClaimSpan(
        text=clause,
        span_group=group,
        is_vef=visual,
        vef_role={"direct_vef": "direct", "derived_vef": "derived"}.get(group, "none"),
        requires_current_image=visual,
        contains_inference=inferred,
        assertion_status="hypothetical" if clause.endswith("?") else assertion(said),
        evidence_in_question_text=spaced(clause) in question,
    )


def visible(said: frozenset[str]) -> bool:
    """Whether words speak of something to be seen: said of a picture, or a thing's look, place, size or number."""
    looks = [said & COLORS, said & THINGS, said & PLACES, said & SIZES, said & PARTS]
    number = any(w.isdigit() for w in said) or said & NUMBERS
    if said & SAYING:
        return bool(said & PICTURE or any(looks) or (number and "there" in said))
    return bool(said & THINGS and (said & COLORS or said & PLACES))


def assertion(said: frozenset[str]) -> Assertion:
    """How a clause is put forward."""
    if said & OPTION:
        return "quoted_option"
    if said & HYPOTHETICAL:
        return "hypothetical"
    return "uncertain" if said & UNCERTAIN else "asserted"


def spaced(text: str) -> str:
    """Lower-case words between single spaces, one at both ends: a phrase is in a text iff the string is."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "
