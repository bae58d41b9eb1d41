"""PaDLayer (PaLMR): samples that a policy can learn from, with what judges need. METHODS section 7.

relevance -> learnability -> pseudo ground truth -> reference; each stage is a file of rows in the output folder. The
result, ``train.jsonl`` with its pictures beside it, trains with ``data=jsonl data.path=<out>/train.jsonl``.

Where paper and METHODS are silent:
1. A sample is compatible with the format iff at least one *right* response is well formed: those are the candidates for
   the reference.
2. The best of them holds against all others in turn, the judge comparing two at a time; ties leave the holder.
3. A request without an answer drops the sample (relevance, description; it is asked again when the job is run again) or
   leaves the holder (reference). Both are counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from mmcredit.build import quiet
from mmcredit.functional import stable_rng
from mmcredit.missing import missing_data, missing_weights
from mmcredit.observers.summary import write_json
from mmcredit.preparation import report as said
from mmcredit.preparation import rules
from mmcredit.preparation.export import exported
from mmcredit.preparation.files import Row, completed, pin, read_rows, write_rows
from mmcredit.preparation.limits import Limits
from mmcredit.preparation.policy import Responder
from mmcredit.services.captioner import SampleRequest
from mmcredit.services.judge import Comparison, Verdict
from mmcredit.types import Sample, UserError


def run(out: str, seed: int, limits: DictConfig, batch: int, refresh: bool, parts: DictConfig) -> dict[str, Any]:
    """All stages; what the output folder holds already is not done again. Returns the report.

    Args:
        out: output folder; the job goes on where it was stopped if it is named again.
        seed: order of the samples, sampling, order of the judge's pairs.
        limits: see ``Limits``.
        batch: samples at a time: what is written between two interruptions.
        refresh: only draw new references for samples that have one, from the present policy; no sample is dropped.
        parts: ``data``, ``model``, ``template``, ``rollout``, ``reward``, ``judge``, ``captioner``.

    Raises:
        UserError: a mistake in the configuration, a folder begun with other settings, or no sample left.
    """
    quiet()
    if missing := [*missing_data(parts), *missing_weights(parts)]:
        raise UserError(f"this job cannot start here: {'; '.join(missing)}")
    if batch < 1:
        raise UserError(f"job.batch={batch} must be at least 1")
    job = PaDLayer(Path(out).expanduser(), seed, instantiate(limits), batch, parts)
    job.folder.mkdir(parents=True, exist_ok=True)
    pin(job.folder / "settings.json", job.settings | {"refresh": refresh})
    return job.refresh() if refresh else job.prepare()


class PaDLayer:
    """The stages of one output folder."""

    def __init__(self, folder: Path, seed: int, limits: Limits, batch: int, parts: DictConfig) -> None:
        self.folder, self.seed, self.limits, self.batch, self.parts = folder, seed, limits, batch, parts
        self.source = instantiate(parts.data.train)
        self.captioner, self.relevance = instantiate(parts.captioner.caption), instantiate(parts.captioner.relevance)
        self.judge, self.respond = instantiate(parts.judge.pairwise), Responder(parts)
        self.stages: list[dict[str, Any]] = []
        self.index: dict[str, int] = {}  # sample id -> place in the source

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the rows; services may change between runs."""
        law = self.parts.rollout.engine.law
        nodes = {
            "data": self.parts.data.train,
            "template": self.parts.template,
            "reward": self.parts.reward,
            "law": law,
        }
        found = {key: OmegaConf.to_container(node, resolve=True) for key, node in nodes.items()}
        return found | {"model": self.parts.model.path, "seed": self.seed, "limits": vars(self.limits)}

    def prepare(self) -> dict[str, Any]:
        """Filter, describe, choose references, export."""
        ids = self.candidates()
        rows = completed(self._file("relevance"), ids, self._relate, self.batch)
        ids = self._keep("relevance", ids, [rules.relevance_fault(row, self.limits.min_relevance) for row in rows])
        rollouts = completed(self._file("rollouts"), ids, self._roll, self.batch)
        bounds = self.limits.min_accuracy, self.limits.max_accuracy
        ids = self._keep("learnability", ids, [rules.learnability_fault(row, *bounds) for row in rollouts])
        rows = completed(self._file("captions"), ids, self._describe, self.batch)
        ids = self._keep("captions", ids, [rules.caption_fault(row) for row in rows])
        truths = {row["id"]: row for row in rows}
        return self._finish(ids, rollouts, truths, {})

    def refresh(self) -> dict[str, Any]:
        """New responses against the old reference."""
        ids = self.candidates()
        metas = {name: self.sample(name).meta for name in ids}
        bare = [None if {"reference", "pseudo_ground_truth"} <= set(metas[n]) else "not_annotated" for n in ids]
        ids = self._keep("annotated", ids, bare)
        rollouts = completed(self._file("rollouts"), ids, self._roll, self.batch)
        truths = {
            n: {"pseudo_ground_truth": m["pseudo_ground_truth"], "key_facts": m.get("key_facts", "").splitlines()}
            for n, m in metas.items()
            if n in set(ids)
        }
        return self._finish(ids, rollouts, truths, {name: metas[name]["reference"] for name in ids})

    def candidates(self) -> list[str]:
        """Ids of the samples that are looked at: with a picture, drawn by the seed, at most so many a family."""
        path = self._file("candidates")
        if not path.exists():
            size = len(self.source)
            count = min(self.limits.candidates or size, size)
            order = stable_rng(self.seed, "padlayer candidates").sample(range(size), count)
            seen = ((i, self.source[i]) for i in order)
            rows = [{"id": s.id, "index": i, "family": s.family} for i, s in seen if s.images]
            write_rows(path, rules.balanced(rows, self.limits.per_domain))
        self.index = {row["id"]: row["index"] for row in read_rows(path)}
        if not self.index:
            raise UserError("no sample of the source has a picture")
        return list(self.index)

    def sample(self, name: str) -> Sample:
        """The sample of an id."""
        return self.source[self.index[name]]

    def _relate(self, ids: list[str]) -> list[Row]:
        scores = self.relevance.submit([SampleRequest(self.sample(name)) for name in ids]).result()
        return [_row(name, s.failure, relevance=s.value) for name, s in zip(ids, scores, strict=True)]

    def _describe(self, ids: list[str]) -> list[Row]:
        found = self.captioner.submit([SampleRequest(self.sample(name)) for name in ids]).result()
        return [
            _row(name, d.failure, pseudo_ground_truth=d.text, key_facts=list(d.key_facts))
            for name, d in zip(ids, found, strict=True)
        ]

    def _roll(self, ids: list[str]) -> list[Row]:
        return self.respond([self.sample(name) for name in ids])

    def _finish(
        self, ids: list[str], rollouts: Sequence[Row], truths: dict[str, Row], old: dict[str, str]
    ) -> dict[str, Any]:
        """References, ``train.jsonl`` with its pictures, and the report."""
        by_id = {row["id"]: row for row in rollouts}
        fit = {name: rules.candidates(by_id[name])[: self.limits.best_of] for name in ids}
        fit = {name: list(dict.fromkeys([*filter(None, [old.get(name)]), *fit[name]])) for name in ids}

        def decide(duels: Sequence[rules.Duel]) -> Sequence[Verdict]:
            asked = [Comparison(self.sample(n), a, b, truths[n]["pseudo_ground_truth"]) for n, a, b in duels]
            return self.judge.submit(asked).result()

        def choose(some: list[str]) -> list[Row]:
            winners = rules.best_of({name: fit[name] for name in some}, decide)
            return [
                {"id": name, "reference": w.text, "candidates": len(fit[name]), "duels": w.duels}
                | {"failures": w.failures, "ties": w.ties, "old": w.text == old.get(name)}
                for name, w in winners.items()
            ]

        rows = completed(self._file("references"), ids, choose, self.batch)
        whole = [by_id[row["id"]] | truths[row["id"]] | row for row in rows]
        write_rows(
            self.folder / "train.jsonl",
            (exported(self.sample(row["id"]), self.index[row["id"]], row, self.folder) for row in whole),
        )
        first = len(self.index)
        report = {"candidates": first, "kept": len(ids), "kept_share": len(ids) / first, "stages": self.stages}
        report |= {"learnability": said.learnability(rollouts), "references": said.references(rows)}
        write_json(report, self.folder / "report.json")
        print(said.table(report))
        print(f"{self.folder / 'train.jsonl'}")
        return report

    def _keep(self, name: str, ids: list[str], faults: Sequence[str | None]) -> list[str]:
        self.stages.append(said.stage(name, len(ids), faults))
        kept = [sample for sample, fault in zip(ids, faults, strict=True) if fault is None]
        if not kept:
            dropped = ", ".join(f"{n} {fault}" for fault, n in self.stages[-1]["dropped"].items())
            raise UserError(f"no sample is left after the stage {name} of {self.folder}: {dropped}")
        return kept

    def _file(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl"


def _row(name: str, failure: str | None, **found: Any) -> Row:
    return {"id": name, "failure": failure} if failure else {"id": name, **found}
