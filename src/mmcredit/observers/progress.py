"""One line a step: reward, accuracy, dead groups, the first method's main number, seconds by stage."""

from __future__ import annotations

import time

import lightning

from mmcredit.module import CreditModule, StepReport
from mmcredit.observers.base import StepObserver

SHOWN = (("reward", "reward/total"), ("acc", "reward/accuracy"), ("dead", "reward/zero_variance_rate"))


class Progress(StepObserver):
    """Prints the progress line.

    Args:
        every: steps between lines.
        extra: keys of further scalars to show, where a method records them.
    """

    def __init__(self, every: int = 1, extra: tuple[str, ...] = ()) -> None:
        self.every, self.extra = every, tuple(extra)
        self.began, self.first = 0.0, 0

    def on_train_start(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule) -> None:
        assert isinstance(pl_module, CreditModule)
        self.began, self.first = time.perf_counter(), pl_module.rollout_step
        if not trainer.is_global_zero:
            return
        views = [method.extra_views(pl_module.scorer.seed) for method in pl_module.chain]
        for method, own in zip(pl_module.chain, views, strict=True):
            print(f"method {type(method).__name__}: {len(own)} extra views a step, {method.paper}")
        if len(views) > 1:
            print(f"methods together: {len(set().union(*views))} extra views a step, shared ones counted once")
        if not pl_module.chain:
            print("method none: correctness only")

    def observe(self, trainer: lightning.Trainer, module: CreditModule, report: StepReport) -> None:
        step = module.rollout_step
        if step % self.every and step < module.steps:
            return
        scalars = report.record.scalars
        parts = [f"{name} {scalars[key]:.3f}" for name, key in SHOWN]
        parts[-1] += f" (right {scalars['reward/all_right_rate']:.2f} wrong {scalars['reward/all_wrong_rate']:.2f})"
        parts += [f"{key.split('/')[-1]} {scalars[key]:+.3f}" for key in self.extra if key in scalars]
        whole = {stage: s for stage, s in report.record.seconds.items() if s >= 0.05 and "/" not in stage}
        stages = " ".join(f"{stage} {seconds:.1f}" for stage, seconds in whole.items())
        rate = (time.perf_counter() - self.began) / (step - self.first)
        left = rate * (module.steps - step)
        print(f"step {step}/{module.steps}  {'  '.join(parts)}  | {stages} s, {left:.0f} s left", flush=True)
