"""Comparing a final answer with the gold answer, by what kind of answer the gold one is.

The door for other verifiers: anything with ``verify(gold, answer, choices)``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Protocol

from mmcredit.data.answers import Kind, Reading, read, unbox
from mmcredit.data.answers.choices import LETTERS
from mmcredit.data.answers.nodes import Node, Num, packed
from mmcredit.data.answers.numerals import decimal_comma
from mmcredit.data.answers.quantities import single_letter_unit
from mmcredit.data.answers.values import Items, Quantity
from mmcredit.data.answers.words import option_letters, words
from mmcredit.reward.compare import Comparison
from mmcredit.reward.numbers import Finding, Numbers, right_if
from mmcredit.reward.verdict import Outcome, Policy, Verdict
from mmcredit.reward.workers import Workers

log = logging.getLogger(__name__)
MOST_PROOFS = 2**14  # kept
SYMBOLIC = "mmcredit.reward.symbolic.equal"
_DASHED = re.compile(r"([A-J]) - (?![A-J]\b).+")
_GAP = re.compile(r"(?<!\d)\s+|\s+(?!\d)")  # but not between digits
_SEPARATORS = re.compile(r"[;,\n]")
_YES_NO = re.compile(
    r"(?:an?\s+)?(?:yes|no)(?:\W*$|\s*[,.;:!-]|"
    r"\s+(?:it|they|there|he|she|this|that) (?:is|are|was|were|do|does|has|have))",
    re.IGNORECASE,
)


class Verifier(Protocol):
    """What the reward needs of a verifier."""

    def verify(self, gold: str, answer: str, choices: Sequence[str] = ()) -> Verdict:
        """Whether the answer is right. Never raises.

        Args:
            gold: the gold answer.
            answer: the final answer of a response, without the box.
            choices: texts of the question's options A, B, ..., if it has any.
        """


class AnswerVerifier:
    """Letters, yes or no, numbers and quantities, lists, intervals, sets, matrices, equations, formulas, words.

    Formulas that neither exact arithmetic nor floating point settles are compared by SymPy in a process of their own,
    which is started when it is first needed. Safe in threads, forks and data-loader workers.

    Args:
        policy: what the corpus leaves open; see ``Policy``.
        seconds: deadline of a symbolic comparison.
        memory_mb: address space of its process, MiB.
        workers: such processes at a time.
    """

    def __init__(
        self, policy: Policy | None = None, seconds: float = 1.0, memory_mb: int = 1024, workers: int = 2
    ) -> None:
        self.policy = policy or Policy()
        self.workers = Workers(SYMBOLIC, seconds, memory_mb, workers)
        self._proofs: dict[tuple[Node, Node], Outcome] = {}
        self.comparison = Comparison(Numbers(self.policy, self._prove))

    def verify(self, gold: str, answer: str, choices: Sequence[str] = ()) -> Verdict:
        """See ``Verifier``. A letter is right for the text of its option, and the text for the letter."""
        kind = Kind.UNPARSABLE
        try:
            wanted, given = read(unbox(gold)), read(answer)
            if (kind := wanted.kind) is Kind.UNPARSABLE:
                return Verdict(Outcome.UNPARSABLE, kind, "gold")
            found = self._decide(wanted, given, tuple(choices))
            return Verdict(found[0], kind, found[1])
        except Exception as error:  # a run of days must not end over one answer
            log.warning("gold %.80r, answer %.80r: %s", gold, answer, type(error).__name__)
            return Verdict(Outcome.UNPARSABLE, kind, "error", type(error).__name__)

    def _decide(self, gold: Reading, answer: Reading, choices: tuple[str, ...]) -> Finding:
        if gold.text == answer.text:
            return Outcome.RIGHT, "written"
        if answer.kind is Kind.UNPARSABLE:
            listed = gold.kind is Kind.LETTER and any(self._is(text, answer.text) for text in choices)
            return self._letter(gold, answer, choices) if listed else (Outcome.UNPARSABLE, str(gold.kind))
        if gold.kind is Kind.LETTER:
            return self._letter(gold, answer, choices)
        if answer.kind is Kind.LETTER:
            right = [i for i, text in enumerate(choices) if self._compare(gold, read(text))[0] is Outcome.RIGHT]
            if len(right) == 1:
                return right_if(LETTERS[right[0]] == answer.letters[0], "choice")
            if answer.rest:
                answer = read(answer.rest)
        return self._compare(gold, answer)

    def _letter(self, gold: Reading, answer: Reading, choices: tuple[str, ...]) -> Finding:
        """A gold letter: by the letter, else by the text of the option."""
        place = LETTERS.index(gold.letters[0])
        if answer.kind is Kind.LETTERS:
            return Outcome.WRONG, "letter"
        said = answer.rest if answer.kind is Kind.LETTER else answer.text
        matching = [i for i, text in enumerate(choices) if said and self._is(text, said)]
        if answer.kind is Kind.LETTER:
            contradicted = bool(matching) and place not in matching
            return right_if(answer.letters == gold.letters and not contradicted, "letter")
        if gold.rest and self._is(gold.rest, answer.text):
            return Outcome.RIGHT, "choice"
        if dashed := _DASHED.fullmatch(answer.text):
            return right_if(dashed[1] == gold.letters[0], "letter")
        if choices:
            return right_if(matching == [place], "choice")
        return Outcome.UNPARSABLE if answer.kind is Kind.TEXT else Outcome.WRONG, "letter"

    def _is(self, gold: str, answer: str) -> bool:
        same = gold.casefold() == answer.casefold()  # none, which says nothing elsewhere
        return same or self._compare(read(gold), read(answer))[0] is Outcome.RIGHT

    def _compare(self, gold: Reading, answer: Reading) -> Finding:
        """By the kind of the gold answer, options aside."""
        if gold.text == answer.text:
            return Outcome.RIGHT, "written"
        if gold.kind is Kind.LETTERS or answer.kind is Kind.LETTERS:
            return right_if(option_letters(gold) == option_letters(answer) != "", "letter")
        if gold.kind is Kind.YES_NO:
            return self._yes_no(gold, answer)
        if gold.kind is Kind.PARTS:
            return self._parts(gold, answer)
        if gold.value is not None and (finding := self._values(gold, answer)) is not None:
            return finding
        return self._written(gold, answer)

    def _yes_no(self, gold: Reading, answer: Reading) -> Finding:
        found = _YES_NO.match(answer.text)
        said = {word.replace("not", "no") for word in words(answer.text) if word in ("yes", "no", "not")}
        if not found or len(said) != 1:
            return (Outcome.WRONG if said else Outcome.UNPARSABLE), "words"
        return right_if(said == {gold.text.casefold()}, "words")

    def _parts(self, gold: Reading, answer: Reading) -> Finding:
        """Part by part; the answer may separate them by commas."""
        given = answer.parts or tuple(part.strip() for part in _SEPARATORS.split(answer.text))
        if len(given) != len(gold.parts):
            return Outcome.WRONG, "structure"
        findings = [self._decide(read(a), read(b), ()) for a, b in zip(gold.parts, given, strict=True)]
        wrong = [finding for finding in findings if finding[0] is Outcome.WRONG]
        return next(iter(wrong), max(findings, key=lambda finding: finding[0] is not Outcome.RIGHT))

    def _values(self, gold: Reading, answer: Reading) -> Finding | None:
        """None where the answer says nothing that could be compared."""
        assert gold.value is not None
        value = answer.value
        finding = None if value is None else self.comparison.same(gold.value, value)
        if finding and finding[0] is not Outcome.WRONG:
            return finding
        if isinstance(gold.value, Quantity) and gold.kind is Kind.NUMBER:
            if isinstance(value, Quantity) and (metres := single_letter_unit(value)):
                return self.comparison.same(gold.value, metres)
            comma = decimal_comma(answer.text) if self.policy.decimal_comma and isinstance(value, Items) else None
            if comma is not None:
                return self.comparison.same(gold.value, Quantity(Num(comma)))
        return finding

    def _written(self, gold: Reading, answer: Reading) -> Finding:
        """As words, or sign by sign."""
        if gold.kind is Kind.TEXT or (gold.kind is Kind.NUMBER and answer.kind is Kind.TEXT):  # three dogs, 3 dogs
            if gold.kind is Kind.NUMBER and words(gold.text) != words(answer.text):
                return Outcome.UNPARSABLE, "words"
            return right_if(bool(words(gold.text)) and words(gold.text) == words(answer.text), "words")
        if _GAP.sub("", gold.text.casefold()) == _GAP.sub("", answer.text.casefold()):
            return Outcome.RIGHT, "written"
        return (Outcome.UNPARSABLE if gold.value is not None else Outcome.WRONG), "structure"

    def _prove(self, gold: Node, answer: Node) -> Outcome:
        found = self._proofs.get((gold, answer))
        if found is None:
            reply = self.workers.ask(packed(gold), packed(answer))
            if reply.failure:
                found = Outcome.TIMED_OUT if reply.failure in ("timeout", "memory") else Outcome.UNPARSABLE
                log.debug("symbolic comparison: %s", reply.failure)
            else:
                found = Outcome.RIGHT if reply.value else Outcome.WRONG
            if len(self._proofs) >= MOST_PROOFS:
                self._proofs.clear()
            self._proofs[gold, answer] = found
        return found
