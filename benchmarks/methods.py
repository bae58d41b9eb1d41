"""(c) What a credit method adds to a step of plain GRPO, on the same responses."""

from __future__ import annotations

from functools import partial

from hydra.utils import instantiate
from torch import Tensor

from benchmarks.ours import FIXED, NATURAL, Steps, composed
from benchmarks.settings import Settings
from benchmarks.table import Row, Table
from benchmarks.timing import Seconds, interleave, ratio, stages
from mmcredit.callbacks.ced import CED
from mmcredit.credit import CreditCallback, Record
from mmcredit.scoring.edits import PixelMask
from mmcredit.scoring.scorer import Scorer
from mmcredit.scoring.views import View
from mmcredit.types import Rollout


class OneMask(CreditCallback):
    """The cost of one pixel-mask view over whole responses, without a use for it."""

    paper = ""

    def on_advantage(self, rollout: Rollout, advantage_BGT: Tensor, scorer: Scorer, record: Record) -> Tensor:
        scorer.logp(rollout, View(image=PixelMask(p=0.5)))
        return advantage_BGT


def same_step(steps: Steps, chain: tuple[CreditCallback, ...]) -> Seconds:
    """A step with a chain, always with the draws of step 1."""
    steps.module.rollout_step = 1  # no step in which CED watches every response
    return steps(*chain)


def built(*names: str) -> tuple[CreditCallback, ...]:
    """Methods as ``callbacks=[...]`` of ``mmcredit.fit`` gives them, with the world's settings."""
    cfg = composed(f"callbacks=[{','.join(names)}]")
    return tuple(instantiate(cfg.callbacks[name]) for name in names)


def run(settings: Settings) -> list[Table]:
    """The table of this section."""
    steps = Steps(settings, *NATURAL, *FIXED, "callbacks=[rlsd]")  # a method with a teacher, so that one is built
    chains: dict[str, tuple[CreditCallback, ...]] = {
        "none": (),
        "ced, default run": built("ced"),
        "ced answer K=3": (CED(scope="answer", k=3),),
        "ced response K=3": (CED(scope="response", k=3),),
        "one pixel mask": (OneMask(),),
        **{name: built(name) for name in ("vppo", "papo", "pacg", "rlsd", "cepo", "rlcsd", "pace", "palmr")},
        "vppo, papo, pacg": built("vppo", "papo", "pacg"),
    }
    found = interleave({name: partial(same_step, steps, chain) for name, chain in chains.items()}, settings.repetitions)
    plain = [run["step"] for run in found["none"]]
    rows: list[Row] = [
        {"method": name, **ratio([run["step"] for run in runs], plain, "over_plain"), **stages(runs)}
        for name, runs in found.items()
    ]
    assert steps.module.report is not None
    length = float(steps.module.report.rollout.mask_BGT.sum(-1).float().mean())
    title = f"(c) step with a method over plain GRPO: {settings.prompts} prompts, G = {settings.group}"
    notes = [f"responses end by themselves, mean length {length:.1f} tokens; learning rate 0; step 1 of a run"]
    return [Table(title, rows, notes)]
