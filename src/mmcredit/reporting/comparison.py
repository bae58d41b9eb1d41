"""A comparison of runs as tables, for HTML and Markdown alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from mmcredit.reporting.arms import Arm
from mmcredit.reporting.comparable import incomparable, remarks
from mmcredit.reporting.runs import Curve, RunFolder
from mmcredit.reporting.seed_statistics import Difference, Spread, paired, spread, welch
from mmcredit.types import UserError

OWN_ROOMS = ("reward", "credit", "rollout", "train", "selection", "scoring", "seconds", "mismatch")
LAST_SHARE = 4  # statistics of the methods are means over the last 1/4 of the steps
NOTHING = "-"
WIDEST = 40  # characters of a setting's value


@dataclass(frozen=True, slots=True)
class Table:
    title: str
    note: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the report says. ``warnings`` come first on the page."""

    arms: tuple[Arm, ...]
    baseline: Arm
    warnings: tuple[str, ...]
    remarks: tuple[str, ...]
    tables: tuple[Table, ...]


def compare(arms: Sequence[Arm], baseline: str | None, notes: Iterable[str] = ()) -> Comparison:
    """Everything but the curves.

    Args:
        baseline: name of the arm that the others are compared with; None: the one without methods, else the first.
        notes: further remarks.

    Raises:
        UserError: no arm of that name.
    """
    plain = next((arm for arm in arms if not next(iter(arm.runs.values())).summary["methods"]), arms[0])
    base = plain if baseline is None else next((arm for arm in arms if arm.name == baseline), None)
    if base is None:
        raise UserError(f"--baseline {baseline!r} does not exist; use one of {'; '.join(arm.name for arm in arms)}")
    unfair = incomparable(arms, base)
    warnings = [f"{name} is not comparable with {base.name}: {'; '.join(why)}" for name, why in unfair.items()]
    tables = [numbered(arms), results(arms, base, unfair), *differences(arms, base, unfair)]
    tables += [gates(arms), timing(arms), listed(arms)]
    return Comparison(tuple(arms), base, tuple(warnings), (*notes, *remarks(arms)), tuple(t for t in tables if t.rows))


def final(arm: Arm, metric: str) -> dict[int, float]:
    """A metric after training, by seed, of the runs that measured it."""
    measured = {seed: run.summary["metrics_end"].get(metric) for seed, run in arm.runs.items()}
    return {seed: value for seed, value in measured.items() if value is not None}


def metrics(arms: Sequence[Arm]) -> list[str]:
    """Every metric of the final validations, in order of their names."""
    return sorted({key for arm in arms for run in arm.runs.values() for key in run.summary["metrics_end"]})


def results(arms: Sequence[Arm], base: Arm, unfair: Iterable[str]) -> Table:
    """Mean and standard deviation of every final metric."""
    names, unfair = metrics(arms), set(unfair)
    rows = [
        (name, *(_spread(spread(values)) if (values := list(final(arm, name).values())) else NOTHING for arm in arms))
        for name in names
    ]
    head = [
        "metric",
        *(f"{arm.name}{' (not comparable)' if arm.name in unfair else ''} n={len(arm.runs)}" for arm in arms),
    ]
    note = "After training: mean ± sample standard deviation over seeds."
    return Table("Results", note, tuple(head), tuple(rows))


def differences(arms: Sequence[Arm], base: Arm, unfair: Iterable[str]) -> list[Table]:
    """Each arm against the baseline."""
    return [_against(arm, base, arm.name in set(unfair)) for arm in arms if arm is not base]


def _against(arm: Arm, base: Arm, unfair: bool) -> Table:
    rows = []
    for name in metrics([arm, base]):
        mine, theirs = final(arm, name), final(base, name)
        if mine and theirs:
            pairs, apart = paired(mine, theirs), welch(list(mine.values()), list(theirs.values()))
            seeds = str(pairs.n) if pairs else "0"
            rows.append((name, f"{apart.mean:+.3f}", seeds, *_difference(pairs), *_difference(apart)))
    note = "Differences of the means; 95 % intervals and two-sided p values: paired by seed (Student's t), and of "
    note += "independent runs (Welch). p values are not corrected for the number of comparisons."
    if unfair:
        note = f"NOT COMPARABLE, see above. {note}"
    head = ("metric", "difference", "pairs", "paired interval", "p paired", "Welch interval", "p Welch")
    return Table(f"{arm.name} - {base.name}", note, head, tuple(rows))


def gates(arms: Sequence[Arm]) -> Table:
    """What the methods recorded."""
    sets = {name.split("/")[0] for name in metrics(arms)}

    logged = {key for arm in arms for run in arm.runs.values() for key in run.curves if "/" in key}
    keys = sorted(key for key in logged if key.split("/", 1)[0] not in {*OWN_ROOMS, *sets})
    rows = [(key, *(_mean_of(arm, partial(_late_mean, key=key)) for arm in arms)) for key in keys]
    note = f"Gates, weights, margins: mean over the last 1/{LAST_SHARE} of the steps, ± standard deviation over seeds."
    return Table("Methods", note, ("key", *(arm.name for arm in arms)), tuple(rows))


def late(curve: Curve) -> float | None:
    """Mean over the last quarter of the steps that a curve has, at least one."""
    values = [curve[step] for step in sorted(curve)]
    kept = values[-max(len(values) // LAST_SHARE, 1) :]
    return sum(kept) / len(kept) if kept else None


def timing(arms: Sequence[Arm]) -> Table:
    """Seconds a step, by stage, and what scoring went through."""
    stages = sorted({stage for arm in arms for run in arm.runs.values() for stage in run.summary["seconds_by_stage"]})

    reads = {f"{stage} s": partial(_a_step, part="seconds_by_stage", key=stage) for stage in stages}
    reads |= {f"tokens {kind}": partial(_a_step, part="tokens", key=kind) for kind in ("computed", "padded")}
    rows = [(name, *(_mean_of(arm, read) for arm in arms)) for name, read in reads.items()]
    rows.append(("extra views", *(_mean_of(arm, _extra_views) for arm in arms)))
    note = (
        "A step, mean ± standard deviation over seeds. stage/part is within its stage; score/<view> are extra passes."
    )
    return Table("Time and passes", note, ("stage", *(arm.name for arm in arms)), tuple(rows))


def _a_step(run: RunFolder, part: str, key: str) -> float | None:
    value, steps = run.summary.get(part, {}).get(key), run.summary["steps"]
    return None if value is None or not steps else value / steps


def _extra_views(run: RunFolder) -> float | None:
    return run.summary.get("extra_views", {}).get("together")


def _late_mean(run: RunFolder, key: str) -> float | None:
    return late(run.curves.get(key, {}))


def numbered(arms: Sequence[Arm]) -> Table:
    """What the numbers in the names of arms stand for."""
    arms = [arm for arm in arms if arm.settings]
    keys = dict.fromkeys(key for arm in arms for key in arm.settings)
    rows = [(key, *(_cut(arm.settings.get(key, "")) for arm in arms)) for key in keys]
    return Table("Arms", "The settings that differ.", ("setting", *(arm.name for arm in arms)), tuple(rows))


def _cut(value: str) -> str:
    return value if len(value) <= WIDEST else f"...{value[3 - WIDEST :]}"  # the end of a path tells more


def listed(arms: Sequence[Arm]) -> Table:
    """The folders."""
    rows = [
        (arm.name, str(seed), str(run.summary["steps"]), f"{run.summary.get('seconds', 0):.0f}", str(run.path))
        for arm in arms
        for seed, run in arm.runs.items()
    ]
    return Table("Runs", "", ("arm", "seed", "steps", "seconds", "folder"), tuple(rows))


def _mean_of(arm: Arm, read: Callable[[RunFolder], float | None]) -> str:
    values = [value for run in arm.runs.values() if (value := read(run)) is not None]
    return _spread(spread(values)) if values else NOTHING


def _spread(found: Spread) -> str:
    return f"{found.mean:.4g}" if found.std is None else f"{found.mean:.4g} ± {found.std:.2g}"


def _difference(found: Difference | None) -> tuple[str, str]:
    if found is None or found.interval is None:
        return NOTHING, NOTHING
    low, high = found.interval
    return f"{low:+.3f} .. {high:+.3f}", NOTHING if found.p is None else f"{found.p:.3f}"
