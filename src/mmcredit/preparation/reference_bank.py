"""A frozen reference bank (``mmcredit.diagnostics.bank``): questions, responses of a model, claims and their labels.

responses -> claims -> labels -> seal; each stage is a file of rows in the output folder, so that a job goes on where it
was stopped. A bank is complete or it is not sealed: what is missing is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from hydra.utils import instantiate
from omegaconf import DictConfig

from mmcredit.build import quiet
from mmcredit.data.gate import BadRow
from mmcredit.diagnostics.annotation import Claims, labelled, routed
from mmcredit.diagnostics.bank import QUESTIONS, RESPONSES, FrozenResponse, as_row, from_row, seal
from mmcredit.functional import stable_rng
from mmcredit.missing import missing_data, missing_weights
from mmcredit.preparation.bank_faults import failures, label_hint, refuse
from mmcredit.preparation.export import question_row
from mmcredit.preparation.files import Row, completed, pin, read_rows, write_rows
from mmcredit.preparation.policy import Responder
from mmcredit.rollout.text import collate
from mmcredit.types import Sample, UserError


def run(
    out: str, seed: int, part: str, questions: int, batch: int, responses: str | None, parts: DictConfig
) -> dict[str, Any]:
    """Build and seal a bank; returns its counts and its hash.

    Args:
        out: output folder; the job goes on where it was stopped if it is named again.
        seed: order of the questions.
        part: which set of the data: ``train``, or the name of a validation set.
        questions: how many.
        batch: questions at a time: what is written between two interruptions.
        responses: JSON lines of responses sampled elsewhere (``id``, ``responses``: texts); null samples them.
        parts: ``data``, ``model``, ``template``, ``rollout``, ``reward``, ``router``, ``labels``.

    Raises:
        UserError: a mistake in the configuration, a folder begun with other settings, or an incomplete bank.
    """
    quiet()
    if missing := [*missing_data(parts), *missing_weights(parts)]:
        raise UserError(f"this job cannot start here: {'; '.join(missing)}")
    sets = {"train": parts.data.train, **parts.data.val}
    if part not in sets:
        raise UserError(f"job.part={part} does not exist; use one of {', '.join(sets)}")
    if min(questions, batch) < 1:
        raise UserError(f"job.questions={questions} and job.batch={batch} must be at least 1")
    builder = Builder(Path(out).expanduser(), instantiate(sets[part]), responses, parts)
    builder.folder.mkdir(parents=True, exist_ok=True)
    law = {key: parts.rollout[key] for key in ("group", "temperature", "top_p", "max_new_tokens")}
    template = {key: parts.template[key] for key in ("instruction", "pattern")}
    settings = {"model": str(parts.model.path), "template": template, "law": law, "seed": seed, "part": part}
    settings |= {"router": parts.router._target_, "questions": questions}
    pin(builder.folder / "settings.json", settings | {"responses": responses})
    return builder(seed, questions, batch, law["group"], settings | {"labels": parts.labels._target_})


class Builder:
    """The stages of one output folder."""

    def __init__(self, folder: Path, source: Any, responses: str | None, parts: DictConfig) -> None:
        self.folder, self.source, self.respond = folder, source, Responder(parts)
        self.router, self.labels = instantiate(parts.router), instantiate(parts.labels)
        self.given = None if responses is None else _given(Path(responses).expanduser())
        self.index: dict[str, int] = {}  # sample id -> place in the source

    def __call__(self, seed: int, questions: int, batch: int, n: int, settings: Row) -> Row:
        """All stages. Arguments as in ``run``; n responses a question."""
        if len(self.source) < questions:
            raise UserError(f"job.questions={questions}: job.part={settings['part']} has {len(self.source)}")
        ids = self._pick(stable_rng(seed, "reference bank").sample(range(len(self.source)), questions), n)
        rows = completed(self._file("sampled"), ids, partial(self._roll, n=n), batch)
        for stage, work, what in (
            ("routed", self._route, "claims"),
            ("labelled", self._label, "a label of each claim"),
        ):
            self.before = {row["id"]: row for row in rows}
            rows = completed(self._file(stage), ids, work, batch)
            if found := failures(rows, what):
                write_rows(self._file("unlabelled"), _unlabelled(self.before.values()))
                refuse(self.folder, found, label_hint(self.folder, found))
        if not any(response.direct() for row in rows for response in from_row(row)):
            refuse(self.folder, {"a direct claim in any response": ids})
        return self._seal(rows, settings)

    def sample(self, name: str) -> Sample:
        """The sample of an id."""
        return self.source[self.index[name]]

    def _pick(self, places: Sequence[int], n: int) -> list[str]:
        """Ids of the samples at these places, each with a picture and, where they are given, n responses."""
        found: dict[str, list[str]] = {}
        for place in places:
            try:
                sample = self.source[place]
            except BadRow as problem:
                found.setdefault("a readable picture", []).append(f"sample {place} ({problem})")
                continue
            self.index[sample.id] = place
            if not sample.images:
                found.setdefault("a picture", []).append(sample.id)
            if self.given is not None and len(self.given.get(sample.id, ())) < n:
                found.setdefault(f"{n} responses", []).append(sample.id)
        if found:
            refuse(self.folder, found)
        return list(self.index)

    def _roll(self, ids: list[str], n: int) -> list[Row]:
        """Responses, sampled or given, with their grades; without claims so far."""
        policy, encoder = self.respond.loaded
        prompts, ends = encoder([self.sample(name) for name in ids]), policy.end_ids.tolist()
        tokenizer = encoder.processor.tokenizer
        if self.given is None:
            tokens = self.respond.engine.generate(policy, prompts, 0).ids
        else:
            texts = [self.given[name][:n] for name in ids]
            tokens = [[torch.tensor([*tokenizer(text).input_ids, ends[0]]) for text in group] for group in texts]
        responses = collate(tokenizer, tokens, ends)
        grades = self.respond.grade(prompts, responses)

        def response(b: int, g: int) -> Row:
            answer_tokens = grades.answer_BGT[b, g].nonzero().flatten().tolist()
            found = {"ids": tokens[b][g].tolist(), "text": responses.texts[b][g], "answer": grades.answers[b][g]}
            found |= {"answer_tokens": answer_tokens, "correct": bool(grades.correct_BG[b, g])}
            return found | {"formed": bool(grades.format_BG[b, g]), "claims": []}

        return [{"id": name, "responses": [response(b, g) for g in range(n)]} for b, name in enumerate(ids)]

    def _route(self, ids: list[str]) -> list[Row]:
        return self._annotated(ids, lambda samples, texts, _: routed(self.router, samples, texts))

    def _label(self, ids: list[str]) -> list[Row]:
        return self._annotated(ids, lambda samples, texts, claims: labelled(self.labels, samples, texts, claims))

    def _annotated(
        self, ids: list[str], ask: Callable[[list[Sample], list[str], list[Claims]], list[Claims]]
    ) -> list[Row]:
        """The rows of the stage before with what a service says of their claims, or with the kind of its fault."""
        pairs = [(name, response) for name in ids for response in from_row(self.before[name])]
        said = ask(
            [self.sample(name) for name, _ in pairs],
            [response.text for _, response in pairs],
            [response.claims for _, response in pairs],
        )
        rows: dict[str, list[FrozenResponse]] = {name: [] for name in ids}
        faults: dict[str, str] = {}
        for (name, response), claims in zip(pairs, said, strict=True):
            if isinstance(claims, str):
                faults.setdefault(name, claims)
            else:
                rows[name].append(replace(response, claims=claims))
        return [{"id": name, "failure": faults[name]} if name in faults else as_row(name, rows[name]) for name in ids]

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"

    def _seal(self, rows: Sequence[Row], settings: Row) -> Row:
        samples = [self.sample(row["id"]) for row in rows]
        write_rows(self.folder / QUESTIONS, (question_row(s, i, self.folder) for i, s in enumerate(samples)))
        write_rows(self.folder / RESPONSES, rows)
        frozen = [from_row(row) for row in rows]
        every = [response for group in frozen for response in group]
        direct = [claim for response in every for claim in response.direct()]
        counts: Row = {"questions": len(frozen), "responses": len(every), "correct": sum(r.correct for r in every)}
        counts |= {"direct_claims": len(direct), "unsupported": sum(claim.unsupported for claim in direct)}
        counts["spans"] = dict(Counter(claim.span.span_group for response in every for claim in response.claims))
        found = {**counts, "hash": seal(self.folder, settings | counts)}
        print(", ".join(f"{key} {value}" for key, value in found.items()))
        print(f"bank {self.folder}")
        return found


def _unlabelled(rows: Iterable[Row]) -> Iterator[Row]:
    """The direct claims, as ``labels=file`` wants them; their status is left to fill in."""
    for row in rows:
        for response in from_row(row) if "failure" not in row else ():
            for claim in response.direct():
                where = {"start": claim.where[0], "end": claim.where[1]}
                said = {"id": row["id"], "response": response.text, "claim": claim.span.text}
                yield {**said, **where, "status": None}


def _given(path: Path) -> dict[str, list[str]]:
    if not path.is_file():
        raise UserError(f"job.responses={path} does not exist")
    rows = read_rows(path)
    if bad := [i for i, row in enumerate(rows, 1) if not isinstance(row.get("responses"), list) or "id" not in row]:
        raise UserError(f"{path}:{bad[0]}: id and responses (a list of texts) are needed")
    return {str(row["id"]): [str(text) for text in row["responses"]] for row in rows}
