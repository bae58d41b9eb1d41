"""``python -m benchmarks.ced_margin``: does CED's margin tell the evidence from any other region?

The shipped tiny model answers questions of the embedded world; the same responses are then scored with the true
evidence box, with a random box of its size that hardly meets it, and with a blank picture in place of the true one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from benchmarks.ours import composed
from benchmarks.table import Row, Table
from mmcredit.build import build
from mmcredit.callbacks.ced import CED, standardized_margin
from mmcredit.credit import Record
from mmcredit.data.world.source import World
from mmcredit.functional import masked_mean, stable_rng
from mmcredit.scoring.views import View
from mmcredit.types import Box, Rollout, Sample

FAMILIES = ("counting", "attribute", "spatial")  # those that CED routes
BLANK = (244, 244, 244)  # the world's background
FLOOR = 0.1  # nats; the default run's sigma_floor
MEASURES = ("margin", "floored", "gap", "beats")


def elsewhere(sample: Sample, tries: int = 1000) -> Sample:
    """The sample with a random evidence box of the same size, IoU with the true one at most .05."""
    box, (width, height), rng = sample.proposal_bbox, sample.images[0].size, stable_rng(sample.id, "random box")
    assert box is not None
    for _ in range(tries):
        other = Box(rng.uniform(0, width - box.w), rng.uniform(0, height - box.h), box.w, box.h)
        if other.iou(box) <= 0.05:
            return replace(sample, proposal_bbox=other)
    raise ValueError(f"no place for another box in sample {sample.id}")


def blank(sample: Sample) -> Sample:
    """The sample with an empty picture."""
    return replace(sample, images=(Image.new("RGB", sample.images[0].size, BLANK),))


def interval(values_Q: Sequence[float], replicates: int, seed: int = 0) -> tuple[float, float, float]:
    """Mean over questions, and its 95 % percentile interval: questions are resampled, with their responses."""
    values = np.asarray(values_Q)
    drawn = np.random.default_rng(seed).integers(len(values), size=(replicates, len(values)))
    low, high = np.percentile(values[drawn].mean(1), (2.5, 97.5))
    return float(values.mean()), float(low), float(high)


class Probe:
    """Responses of the shipped model to world questions, scored under other boxes and pictures.

    Args:
        samples: number of questions.
        group: responses a question.
        k: reference regions.
    """

    def __init__(self, samples: int, group: int, k: int) -> None:
        run = build(composed("template=short_evidence", f"rollout.group={group}", f"data.batch_size={samples}"))
        world = World("val", samples, seed=7, families=FAMILIES)
        self.method, self.module, self.encoder = CED(k=k), run.module, run.data.encoder
        self.samples = [world[i] for i in range(samples)]
        self.rollout = self.module.sample(self.encoder(self.samples), Record())

    def drops(self, samples: Sequence[Sample]) -> tuple[Tensor, Tensor]:
        """Drop of the answer's log-prob without the evidence [B, G] and without each reference region [B, G, K]."""
        rollout: Rollout = replace(self.rollout, prompts=self.encoder(samples), logp_BGT=torch.zeros(0))
        self.module.scorer.forget()
        scope_BGT = rollout.grades.answer_BGT
        logp_BGT = self.module.scorer.logp(rollout, View())
        replaced = self.module.scorer.logps(rollout, self.method.views)
        found = [masked_mean(logp_BGT - other, scope_BGT, dim=-1) for other in replaced]
        return found[0], torch.stack(found[1:], -1)

    def measure(self, samples: Sequence[Sample]) -> dict[str, Tensor]:
        """[B] by measure, means over the responses of a question that have an answer; NaN where none has."""
        s_ev, s_non = self.drops(samples)
        answered_BG = self.rollout.grades.answer_BGT.any(-1)
        shown = {"margin": standardized_margin(s_ev, s_non), "gap": s_ev - s_non.mean(-1)}
        shown["floored"] = standardized_margin(s_ev, s_non, FLOOR)
        shown["beats"] = (s_ev > s_non.mean(-1)).float()
        return {
            name: (value_BG.nan_to_num() * answered_BG).sum(1) / answered_BG.sum(1) for name, value_BG in shown.items()
        }


def run(samples: int = 200, group: int = 4, k: int = 3, replicates: int = 10_000) -> Table:
    """The table: a row a condition and family."""
    probe, rows = Probe(samples, group, k), list[Row]()
    families = [sample.family for sample in probe.samples]
    conditions = {"true box": probe.samples, "random box": list(map(elsewhere, probe.samples))}
    conditions["blank picture"] = list(map(blank, probe.samples))
    for condition, shown in conditions.items():
        found = probe.measure(shown)
        for family in ("all", *FAMILIES):
            row: Row = {"condition": condition, "family": family}
            for name in MEASURES:
                of = [family in ("all", found_family) for found_family in families]
                values = found[name][torch.tensor(of) & ~found[name].isnan()].tolist()
                mean, low, high = interval(values, replicates)
                row[name] = f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"
            rows.append(row)
    accuracy = float(probe.rollout.grades.correct_BG.float().mean())
    notes = [f"{samples} questions x {group} responses, K = {k}; share of right answers {accuracy:.2f}"]
    notes += [f"margin: standardized, -1..1; floored: with sigma_floor={FLOOR}; gap: s_ev - mean s_non, nats a token"]
    notes += ["beats: share with a positive gap; without a floor, margins of a blank picture standardize rounding"]
    notes += ["reference regions keep off the random box, not off the true one, which they take now and then"]
    return Table("CED's margin by evidence box, 95 % intervals over questions", rows, notes)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ced_margin", description=__doc__)
    default = Path(__file__).parent / "results" / "ced_margin.json"
    parser.add_argument("out", nargs="?", type=Path, default=default, help="JSON file; default %(default)s")
    for name, value in (("samples", 200), ("group", 4), ("k", 3), ("replicates", 10_000)):
        parser.add_argument(f"--{name}", type=int, default=value, help="default %(default)s")
    args = parser.parse_args(arguments)
    table = run(args.samples, args.group, args.k, args.replicates)
    print(table)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps({"rows": table.rows, "notes": table.notes}, indent=1) + "\n")


if __name__ == "__main__":
    main()
