"""The gate between sources and a run: prompts that are too long, ids that repeat, gold answers that nothing can be
compared with, pictures that fail in mid-run."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from mmcredit.data.answers import Kind, answer_kind
from mmcredit.data.encode import Encoder
from mmcredit.data.gate import BadRow, Gate, GateReport, Outline
from mmcredit.data.source import Info, info_of
from mmcredit.functional import stable_rng
from mmcredit.types import Sample, UserError

log = logging.getLogger(__name__)
MAX_PROMPT_TOKENS = 4096  # as in the papers' recipes
PROBED = 64  # samples of a generated source, which is bounded by construction
TRIES = 100  # stand-ins for a picture that fails


class Rows(Protocol):
    """A map-style source. It may have ``outline(index)``, a ``report`` of its own, and ``generated = True`` if its
    samples are computed, so that one is like another."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Sample: ...


class Admitted:
    """The samples of a source that passed the gate, as a source.

    A picture that cannot be read any more when its turn comes, in mid-run, ends the run under ``raise``. Under ``skip``
    another sample stands in, always the same one for the same row, and ``stand_ins`` counts it by reason.
    """

    def __init__(self, source: Rows, places: Sequence[int], longest: int, gate: Gate) -> None:
        self.source, self.places, self.gate = source, places, gate
        self.longest = longest  # tokens; no prompt has more
        self.stand_ins = Counter[str]()

    @property
    def report(self) -> GateReport:
        """Of the rows, as read and as left out."""
        return self.gate.report

    def __len__(self) -> int:
        return len(self.places)

    def info(self, index: int) -> Info:
        """What samplers ask."""
        return info_of(self.source, self.places[index])

    def __getitem__(self, index: int) -> Sample:
        place = self.places[index]
        try:
            return self.source[place]
        except BadRow as problem:
            return self._stand_in(place, problem)

    def _stand_in(self, place: int, problem: BadRow) -> Sample:
        where = f"{self.report.source}: sample {place} cannot be read any more: {problem}"
        if self.gate.on_bad_row == "raise":
            raise UserError(f"{where} (data.on_bad_row=skip lets others stand in)") from None
        self.stand_ins[problem.reason] += 1
        log.warning("%s; another stands in", where)
        others = stable_rng(self.report.source, place, "stand-in").sample(range(len(self)), min(len(self), TRIES))
        for other in others:
            try:
                return self.source[self.places[other]]
            except BadRow:
                continue
        raise UserError(f"{where}, nor can {len(others)} others; is the data folder still there?")


class PromptGate:
    """Checks every sample before training, pictures by their sizes alone where the source knows these.

    Args:
        encoder: makes the prompts.
        max_tokens: longest prompt, pictures included. Nothing is ever truncated.
        on_bad_row: ``raise`` stops at the first prompt that cannot be used, ``skip`` leaves such samples out.
    """

    def __init__(self, encoder: Encoder, max_tokens: int = MAX_PROMPT_TOKENS, on_bad_row: str = "raise") -> None:
        self.encoder, self.max_tokens, self.on_bad_row = encoder, max_tokens, on_bad_row

    def __call__(self, name: str, source: Rows) -> Admitted:
        """The samples of a source that can be used.

        Raises:
            UserError: under ``raise``, the first that cannot be, with its id and numbers.
        """
        report = getattr(source, "report", None) or GateReport(f"data.{name}", read=len(source), kept=len(source))
        gate, generated = Gate(report.source, self.on_bad_row, report), getattr(source, "generated", False)
        ids, outline, kept, longest = set[str](), _outliner(source), list[int](), 0
        before, kinds = report.dropped.total(), Counter[str]()
        for place in range(min(len(source), PROBED) if generated else len(source)):
            try:
                found = outline(place)
                kind = _kind(found)
                longest = max(longest, self._measured(found, ids))
            except BadRow as problem:
                report.kept -= 1
                gate.drop(f" sample {place}", problem)  # counted among those of the set, from 0
            else:
                kept.append(place)
                kinds[kind] += 1
        if dropped := report.dropped.total() - before:
            log.warning("%s: %d samples left out by the prompt gate", report.source, dropped)
        if not generated and not report.kinds:
            report.kinds.update({kind: count for kind, count in kinds.items() if kind})
        return Admitted(source, range(len(source)) if generated else kept, longest, gate)

    def _measured(self, found: Outline, ids: set[str]) -> int:
        """A bound of the prompt's tokens, the number itself where the bound is above what is allowed."""
        if found.id in ids:
            raise BadRow("duplicate_id", f"id {found.id!r} is already used by an earlier sample")
        ids.add(found.id)
        longest = self.encoder.longest(found)
        if longest <= self.max_tokens:
            return longest
        total, pictures = self.encoder.length(found)
        if total > self.max_tokens:
            sizes = ", ".join(f"{width}x{height}" for width, height in found.sizes) or "none"
            raise BadRow(
                "prompt_too_long",
                f"the prompt of sample {found.id!r} has {total:,} tokens, {pictures:,} of them of images ({sizes}), "
                f"above data.max_prompt_tokens={self.max_tokens:,}; raise it, or give images fewer tokens "
                "(+model.processor.max_pixels=1000000, for internvl +model.processor.max_patches=4)",
            )
        return total


def _kind(found: Outline) -> str:
    """Of the gold answer; empty where there is none to check."""
    if found.answer is None:
        return ""
    if (kind := answer_kind(found.answer)) is Kind.UNPARSABLE:
        raise BadRow("gold_unparsable", f"sample {found.id!r}: nothing equals the answer {found.answer[:80]!r}")
    return str(kind)


def _outliner(source: Rows) -> Callable[[int], Outline]:
    def decoded(index: int) -> Outline:
        sample = source[index]
        return Outline(sample.id, sample.question, tuple(image.size for image in sample.images), sample.answer)

    known: Callable[[int], Outline] | None = getattr(source, "outline", None)
    if known is None and len(source) > 10_000 and not getattr(source, "generated", False):
        log.info("%s tells no sizes of its images: decoding all %d", type(source).__name__, len(source))
    return known or decoded
