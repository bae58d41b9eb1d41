"""A frozen reference bank: questions with pictures, sampled responses, and their labelled claims. It never changes, so
that every checkpoint is measured on the same tokens.

A folder of ``questions.jsonl`` (readable by ``data=jsonl``) with its pictures, ``responses.jsonl`` (a question a line),
and ``bank.json`` with the settings and the SHA-256 of every other file. ``mmcredit.prepare reference_bank`` makes it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from mmcredit.data.encode import Encoder
from mmcredit.data.sources.jsonl import Jsonl
from mmcredit.data.templates import Template
from mmcredit.files import write_text
from mmcredit.rollout.text import collate
from mmcredit.services.claim_status import SUPPORTED
from mmcredit.services.claims import ClaimSpan, Routing
from mmcredit.types import Grades, Rollout, Sample, Span, UserError

BUILD = "python -m mmcredit.prepare reference_bank"
INDEX, QUESTIONS, RESPONSES = "bank.json", "questions.jsonl", "responses.jsonl"


@dataclass(frozen=True, slots=True)
class Claim:
    """A span that the router marked. ``status`` is one of ``claim_status.STATUSES`` for direct claims, else None."""

    span: ClaimSpan
    where: Span
    status: str | None

    @property
    def unsupported(self) -> bool:
        """A direct claim that the picture does not bear out."""
        return self.status not in (None, SUPPORTED)


@dataclass(frozen=True, slots=True)
class FrozenResponse:
    """A sampled response, graded."""

    ids: tuple[int, ...]  # as sampled, end token included
    text: str
    answer: str | None
    answer_tokens: tuple[int, ...]  # places of its tokens
    correct: bool
    formed: bool  # keeps the template
    claims: tuple[Claim, ...]

    @property
    def routing(self) -> Routing:
        """What the router said."""
        return Routing(tuple((claim.span, claim.where) for claim in self.claims))

    def direct(self, *statuses: str) -> tuple[Claim, ...]:
        """Direct claims, of these statuses if any are named."""
        return tuple(c for c in self.claims if c.span.eligible and (not statuses or c.status in statuses))


@dataclass(frozen=True, slots=True)
class Bank:
    """Q questions with G responses each."""

    hash: str  # SHA-256 over settings and all files
    settings: Mapping[str, Any]
    samples: tuple[Sample, ...]
    responses: tuple[tuple[FrozenResponse, ...], ...]  # [Q][G]

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def template(self) -> Template:
        """Around the questions, as the responses were sampled."""
        return Template(**self.settings["template"])

    def rollout(self, encoder: Encoder, start: int, stop: int, end_ids: Sequence[int]) -> Rollout:
        """The responses to some questions, with their grades; log-probs are 0, the reward is correctness.

        Raises:
            UserError: the tokens mean another text to this tokenizer.
        """
        frozen, tokenizer = self.responses[start:stop], encoder.processor.tokenizer
        ids = [[torch.tensor(response.ids) for response in group] for group in frozen]
        known = all(max(response.ids) < len(tokenizer) for group in frozen for response in group)
        responses = collate(tokenizer, ids, end_ids) if known else None
        texts = tuple(tuple(response.text for response in group) for group in frozen)
        if responses is None or responses.texts != texts:
            raise UserError(
                "the bank's tokens are not those of this model's tokenizer: compare checkpoints of one model, or build "
                f"a bank with it ({BUILD} model=...)"
            )
        correct_BG = torch.tensor([[response.correct for response in group] for group in frozen])
        formed_BG = torch.tensor([[response.formed for response in group] for group in frozen])
        answers = tuple(tuple(response.answer for response in group) for group in frozen)
        answer_BGT = torch.zeros_like(responses.mask_BGT)
        for b, group in enumerate(frozen):
            for g, response in enumerate(group):
                answer_BGT[b, g, list(response.answer_tokens)] = True
        grades = Grades(correct_BG.float(), correct_BG, formed_BG, answers, answer_BGT)
        prompts, logp = encoder(self.samples[start:stop]), torch.zeros(responses.mask_BGT.shape)
        return Rollout(prompts, responses, grades, 0, logp, grades.reward_BG, start)


def as_row(sample_id: str, responses: Sequence[FrozenResponse]) -> dict[str, Any]:
    """A line of ``responses.jsonl``."""
    return {"id": sample_id, "responses": [asdict(response) for response in responses]}


def from_row(row: Mapping[str, Any]) -> tuple[FrozenResponse, ...]:
    """The responses of a line."""

    def claim(given: Mapping[str, Any]) -> Claim:
        return Claim(ClaimSpan(**given["span"]), tuple(given["where"]), given["status"])  # type: ignore[arg-type]

    def response(given: Mapping[str, Any]) -> FrozenResponse:
        changed = {key: tuple(given[key]) for key in ("ids", "answer_tokens")}
        return FrozenResponse(**{**given, **changed, "claims": tuple(map(claim, given["claims"]))})

    return tuple(map(response, row["responses"]))


def seal(folder: Path, settings: Mapping[str, Any]) -> str:
    """Write ``bank.json`` over the files of a finished folder; returns the bank's hash."""
    pictures = sorted(path.relative_to(folder).as_posix() for path in (folder / "images").glob("*"))
    content = {
        "settings": dict(settings),
        "files": {name: _sha256(folder / name) for name in (QUESTIONS, RESPONSES, *pictures)},
    }
    write_text(folder / INDEX, json.dumps(content | {"hash": _hash(content)}, indent=1) + "\n")
    return _hash(content)


def load(path: str | Path | None) -> Bank:
    """The bank in a folder, every file checked against its hash.

    Raises:
        UserError: no bank there; a file that is missing or was changed, by name.
    """
    folder = Path(path or "").expanduser()
    if path is None or not (folder / INDEX).is_file():
        raise UserError(f"bank={path} is no reference bank; {BUILD} makes one, bank=<its folder> names it")
    try:
        content = json.loads((folder / INDEX).read_text("utf-8"))
        known = content.pop("hash")
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{folder / INDEX} is damaged: build the bank again ({BUILD})") from None
    missing = [name for name in content["files"] if not (folder / name).is_file()]
    changed = [n for n, digest in content["files"].items() if n not in missing and _sha256(folder / n) != digest]
    if _hash(content) != known:
        changed.append(INDEX)
    for what, names in (("lacks", missing), ("was changed since it was sealed:", changed)):
        if names:
            raise UserError(f"the bank {folder} {what} {', '.join(names[:5])}{' ...' * (len(names) > 5)}")
    source = Jsonl(folder / QUESTIONS)
    rows = [json.loads(line) for line in (folder / RESPONSES).read_text("utf-8").splitlines()]
    samples = tuple(source[i] for i in range(len(source)))
    assert [sample.id for sample in samples] == [row["id"] for row in rows], "the builder keeps their order"
    return Bank(known, content["settings"], samples, tuple(map(from_row, rows)))


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _hash(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
