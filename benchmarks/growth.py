"""(e) How the step grows with G, T, the size of the picture and the number K of CED's reference regions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from benchmarks.ours import FIXED, FORCED, MIXED, Steps, resized
from benchmarks.settings import Settings
from benchmarks.table import Row, Table
from benchmarks.timing import Seconds, interleave, stages
from mmcredit.callbacks.ced import CED


def variants(settings: Settings, steps: Steps) -> dict[str, Callable[[], Seconds]]:
    """A step for every point; what is not named stays as in the settings, without a method."""
    samples = list(steps.samples)

    def step(group: int = settings.group, tokens: int = settings.new_tokens, side: int = 0, k: int = 0) -> Seconds:
        steps.sampling(group, tokens)
        steps.samples = resized(samples, side) if side else samples
        return steps(*([CED(scope="response", k=k)] if k else []))

    found: dict[str, Callable[[], Seconds]] = {}
    found |= {f"G={n}": partial(step, group=n) for n in settings.grow_groups}
    found |= {f"T={n}": partial(step, tokens=n) for n in settings.grow_tokens}
    found |= {f"picture={n}": partial(step, side=n) for n in settings.grow_pictures}
    return found | {f"K={n}": partial(step, k=n) for n in settings.grow_regions}


def run(settings: Settings) -> list[Table]:
    """The table of this section."""
    steps = Steps(settings, *FORCED, *MIXED, *FIXED)
    found = interleave(variants(settings, steps), max(settings.repetitions // 2, 1))
    rows: list[Row] = [{"point": name, **stages(runs)} for name, runs in found.items()]
    size = f"{settings.prompts} prompts, G = {settings.group}, T = {settings.new_tokens}, world pictures (128)"
    notes = ["K: CED over whole responses with K reference regions; the other points run without a method"]
    return [Table(f"(e) growth of the step from {size}", rows, notes)]
