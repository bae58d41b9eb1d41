"""Reading an answer: what kind it is, and what it says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from mmcredit.data.answers.forms import rational
from mmcredit.data.answers.nodes import Name, Num, variables, walk
from mmcredit.data.answers.numerals import in_words, numeral, plain_numerals
from mmcredit.data.answers.quantities import plain_quantity
from mmcredit.data.answers.structure import LONGEST, structured
from mmcredit.data.answers.text import clean, unbox
from mmcredit.data.answers.tokens import NoFormula
from mmcredit.data.answers.units import unit
from mmcredit.data.answers.values import Items, Kind, Matrix, Quantity, Ratio, Relation, Union, Value

_NOTHING = {"nan", "none", "null", "n/a", "inf", "+inf", "-inf", "[]", "{}", "()", "?"}
_MARKS = re.compile(r"[\s?!.,;:_~*#'\"-]+")  # but > and = are answers
_LEAD = re.compile(r"^(?:(?:the )?(?:final |correct )?(?:answer|option|choice)(?: is)?\s*:?\s+)+(?=\S)", re.IGNORECASE)
_SAID = re.compile(
    r"^(?:(?:so,? )?(?:the )?(?:final |correct )?answer(?: is\s*:?|\s*:)\s+|"
    r"(?:there (?:is|are)|it is|it's) (?!no\b|not\b))(?=\S)|\s+in (?:the|this) (?:image|picture|photo)$",
    re.IGNORECASE,
)
_SEVERAL = re.compile(r"(?:[Bb]oth |[Nn]either |[Ee]ither )?\(?([A-J])\)? (?:and|or|nor) \(?([A-J])\)?")
_LETTER = re.compile(r"[(\[<]?\s*([A-Ja-j])\s*(?:[)\]>](.*)|[.:](\s.*)?|)", re.DOTALL)
_GLUED_LETTER = re.compile(r"([A-J])[.:](\S.*)", re.DOTALL)
_ANOTHER = re.compile(r"(?:^|\W)(?:\(?[A-Ja-j]\)|[A-J][.:](?!\w)|(?:or|and|,|/|&)\s*\(?[A-J](?!\w))|^\W*[A-Ja-j]\W*$")
_LETTERS = re.compile(r"\(?([A-J])\)?(?:\s*(?:,|;|&|/|\band\b|\s)\s*\(?([A-J])\)?)+")
_SURROUNDED = re.compile(r"\\?[{\[]([^{}\[\]\\]*)\\?[}\]]")  # {A, D}
_WORDS = re.compile(r"(?=.*[^\W\d_]{2})[^\W\d_]+(?:(?:[\s'-]|, )+[^\W\d_]+)*")
_MATHS = re.compile(r"[\\^_=<>+*/|()\[\]{}]")
_LATEX = re.compile(r"\\[A-Za-z]|[\^_]\{")
_FORMULA_WORDS = {"pi", "infinity", "-infinity"}
_MARK = re.compile(r"\(\s*(\d)\s*\)|(?:(?<=^)|(?<=[\s;,]))(\d)[).](?=\s)")


@dataclass(frozen=True, slots=True)
class Reading:
    """An answer that was read.

    Args:
        kind: what it is.
        text: its cleaned writing.
        value: what it says; None for letters, words and what is compared as written.
        letters: of the options that it names, in order, upper case.
        rest: what follows an option's letter.
        parts: of a multi-part answer.
    """

    kind: Kind
    text: str
    value: Value | None = None
    letters: tuple[str, ...] = ()
    rest: str = ""
    parts: tuple[str, ...] = ()


def answer_kind(gold: str) -> Kind:
    """The kind of a gold answer; ``Kind.UNPARSABLE`` where no answer can be compared with it."""
    return read(unbox(gold)).kind


@lru_cache(maxsize=2**15)
def read(text: str) -> Reading:
    """Read an answer. Never raises; linear in the length of the text."""
    if (number := numeral(text.strip())) is not None:
        return Reading(Kind.NUMBER, text.strip(), plain_quantity(text.strip()) or Quantity(Num(number)))
    if len(text) > 8 * LONGEST:
        return Reading(Kind.TEXT if text.strip() else Kind.UNPARSABLE, text)
    cleaned = plain_numerals(clean(_SAID.sub("", clean(text))))
    if not cleaned or cleaned.casefold() in _NOTHING or _MARKS.fullmatch(cleaned):
        return Reading(Kind.UNPARSABLE, cleaned)
    return _option(cleaned) or _worded(cleaned) or _parts(cleaned) or _formula(cleaned)


def same_key(answer: str) -> str:
    """Equal for answers that say the same number, option or text; empty for what says nothing."""
    found = read(answer)
    if found.kind is Kind.UNPARSABLE:
        return ""
    if isinstance(value := found.value, Quantity) and not (value.unit or value.percent or found.letters):
        number = rational(value.node)
        if number is not None and number.numerator.bit_length() + number.denominator.bit_length() < 4096:
            return str(number)
    return found.letters[0].casefold() if found.letters and not found.rest else found.text.casefold()


def without_lead(text: str) -> str:
    """Without *the answer is*, *option* and the like."""
    return _LEAD.sub("", text)


def _option(text: str) -> Reading | None:
    """A letter of an option, perhaps with the option's text; or several letters."""
    bare = without_lead(text)
    found = _LETTER.fullmatch(bare) or _GLUED_LETTER.fullmatch(bare)
    if found:
        rest = next((group for group in found.groups()[1:] if group), "").strip()
        others = (m := _SEVERAL.fullmatch(rest)) and found[1].upper() not in m.groups()  # D. Both A and B
        if not rest or others or not _ANOTHER.search(rest):
            value = None if rest else Quantity(Name(found[1]))
            return Reading(Kind.LETTER, text, value, (found[1].upper(),), rest)
    bare = _SURROUNDED.sub(r"\1", bare)
    letters = tuple(re.findall(r"(?<![A-Za-z])[A-J](?![A-Za-z])", bare)) if _LETTERS.fullmatch(bare) else ()
    if len(letters) > 1 and len(set(letters)) == len(letters):
        return Reading(Kind.LETTERS, bare, letters=letters)
    return None


def _worded(text: str) -> Reading | None:
    """Yes, no, a number word, or other words."""
    if text.casefold() in ("yes", "no"):
        return Reading(Kind.YES_NO, text)
    if (number := in_words(text)) is not None:
        return Reading(Kind.NUMBER, text, Quantity(Num(number)))
    count, _, thing = text.rpartition(" ")
    if (number := in_words(count)) is not None and (counted := unit(thing)) is not None:
        return Reading(Kind.NUMBER, text, Quantity(Num(number), counted))  # three dogs
    if len(text) > 2 and text.casefold() not in _FORMULA_WORDS and _WORDS.fullmatch(text):
        return Reading(Kind.TEXT, text)
    return None


def _parts(text: str) -> Reading | None:
    """``(1) ... (2) ...``, numbered from the beginning."""
    marks = list(_MARK.finditer(text))
    if not marks or marks[0].start() != 0:
        return None
    wanted, kept = 1, []
    for mark in marks:
        if int(mark[1] or mark[2]) == wanted:
            kept.append(mark)
            wanted += 1
    if len(kept) < 2:
        return None
    ends = [mark.start() for mark in kept[1:]] + [len(text)]
    parts = tuple(text[m.end() : end].strip(" ,;.:") for m, end in zip(kept, ends, strict=True))
    if not all(any(c.isalnum() for c in part) for part in parts):
        return None
    return Reading(Kind.PARTS, text, parts=parts)


def _formula(text: str) -> Reading:
    try:
        value = structured(text)
    except NoFormula as problem:
        broken = "bracket" in str(problem) and _LATEX.search(text)
        other = Kind.FORMULA if _MATHS.search(text) else Kind.TEXT
        return Reading(Kind.UNPARSABLE if broken else other, text)
    return Reading(kind_of(value), text, value)


def kind_of(value: Value) -> Kind:
    """What a value is."""
    if isinstance(value, Quantity):
        return Kind.EXPRESSION if variables(value.node) else Kind.NUMBER
    if isinstance(value, Items):
        return _kind_of_items(value)
    if isinstance(value, Relation):
        return Kind.EQUATION if set(value.signs) == {"="} else Kind.INEQUALITY
    return _KINDS[type(value)]


def _kind_of_items(value: Items) -> Kind:
    if value.opening in ("", "{"):
        return Kind.SET if value.opening else Kind.LIST
    infinite = any(Name("oo") in walk(item.node) for item in value.items if isinstance(item, Quantity))
    interval = len(value.items) == 2 and ((value.opening, value.closing) != ("(", ")") or infinite)
    return Kind.INTERVAL if interval else Kind.TUPLE


_KINDS: dict[type, Kind] = {Union: Kind.UNION, Matrix: Kind.MATRIX, Ratio: Kind.RATIO}
