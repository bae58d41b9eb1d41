"""(b) Responses that share their prompt's row against one padded row a response: scoring, and update with gradients."""

from __future__ import annotations

from functools import partial

import torch

from benchmarks.ours import NATURAL, Steps
from benchmarks.settings import Settings
from benchmarks.table import Row, Table
from benchmarks.timing import Seconds, clocked, interleave, middle, ratio
from mmcredit.credit import Record
from mmcredit.scoring.scorer import Scorer
from mmcredit.scoring.views import View
from mmcredit.types import Grades, Prompts, Responses, Rollout, Sample

PLAIN_IDS = 256  # the byte tokens: below every special token


def random_rollout(prompt: int, response: int, group: int) -> Rollout:
    """One text prompt with G responses of random tokens."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(PLAIN_IDS, (prompt,), generator=generator)
    sampled = torch.randint(PLAIN_IDS, (1, group, response), generator=generator)
    mask = torch.ones_like(sampled, dtype=torch.bool)
    zeros = torch.zeros(1, group)
    return Rollout(
        Prompts((Sample("random", (), "", ""),), (ids,), (None,), (None,)),
        Responses(sampled, mask, (("",) * group,), (((),) * group,)),
        Grades(zeros, zeros.bool(), zeros.bool(), ((None,) * group,), torch.zeros_like(mask)),
        0,
        torch.zeros(mask.shape),
        zeros,
    )


def passes(scorer: Scorer, rollout: Rollout, packed: bool) -> Seconds:
    """Seconds of a scoring pass, and of a forward and backward pass."""
    scorer.packed = packed
    scorer.forget()
    scoring = clocked(lambda: scorer.logp(rollout, View()))
    update = clocked(lambda: scorer.train_scores(rollout).logp_S.sum().backward())
    scorer.policy.zero_grad()
    return {"scoring": scoring, "update": update, "both": scoring + update}


def compare(scorer: Scorer, rollout: Rollout, repetitions: int) -> Row:
    """Columns: median milliseconds when packed, and padded over packed."""
    calls = {str(packed): partial(passes, scorer, rollout, packed) for packed in (True, False)}
    found = interleave(calls, repetitions)
    packed, padded = found["True"], found["False"]
    row: Row = {}
    for stage in ("scoring", "update"):
        row[f"{stage}_ms"] = 1000 * middle(packed, stage)
        row |= ratio([r[stage] for r in padded], [r[stage] for r in packed], stage)
    return row | ratio([r["both"] for r in padded], [r["both"] for r in packed], "both")


def world(settings: Settings, steps: Steps) -> Table:
    """The embedded world as it is: pictures, and responses that end by themselves."""
    rollout = steps.module.sample(steps.encode(), Record())
    lengths = rollout.mask_BGT.sum(-1).float()
    prompt = sum(map(len, rollout.prompts.ids)) / len(rollout.prompts)
    row: Row = {"prompt": prompt, "response": float(lengths.mean()), "G": settings.group}
    row |= compare(steps.module.scorer, rollout, settings.repetitions)
    notes = ["padded over packed: median, smallest and largest of neighbours", "pictures are seen once on both paths"]
    return Table(f"(b) padded over packed, embedded world, {settings.prompts} prompts, mean lengths", [row], notes)


def run(settings: Settings) -> list[Table]:
    """The tables of this section."""
    steps = Steps(settings, *NATURAL)
    rows: list[Row] = []
    for group in settings.groups:
        for p, t in settings.ratios:
            unit = max(settings.padded_tokens // (group * (p + t)), 1)
            rollout = random_rollout(p * unit, t * unit, group)
            row: Row = {"ratio": f"{p}:{t}", "G": group, "P": p * unit, "T": t * unit}
            rows.append(row | compare(steps.module.scorer, rollout, settings.cell_repetitions))
    title = f"(b) padded over packed, one prompt of random tokens, about {settings.padded_tokens} padded tokens a cell"
    return [world(settings, steps), Table(title, rows)]
