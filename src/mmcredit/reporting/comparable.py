"""Which arms can be compared: they trained and were measured on the same, from the same start, for as long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mmcredit.reporting.arms import Arm
from mmcredit.reporting.runs import RunFolder

UNKNOWN = "unknown (no provenance.json)"


def _data(run: RunFolder) -> Any:
    return run.provenance.get("data", {}).get("train", {}).get("fingerprint", UNKNOWN)


def _evaluation(run: RunFolder) -> Any:
    sets = run.provenance.get("data")
    if sets is None:
        return UNKNOWN
    law = ", ".join(f"{key} {run.config.get(f'rollout.{key}')}" for key in ("temperature", "top_p", "max_new_tokens"))
    held_out = ", ".join(f"{name} {found['fingerprint']}" for name, found in sets.items() if name != "train")
    return f"{held_out or 'none'} ({law})"


def _model(run: RunFolder) -> Any:
    model = run.provenance.get("model", {})
    return model.get("fingerprint") or model.get("path") or UNKNOWN


def _template(run: RunFolder) -> Any:
    return run.provenance.get("template", UNKNOWN)


def _budget(run: RunFolder) -> Any:
    steps, prompts, group = run.summary["steps"], run.config.get("data.batch_size"), run.config.get("rollout.group")
    return f"{steps} steps x {prompts} prompts x {group} responses"


ASPECTS: dict[str, Callable[[RunFolder], Any]] = {
    "training data": _data,
    "evaluation sets and sampling": _evaluation,
    "model": _model,
    "prompt template": _template,
    "budget": _budget,
}
REMARKED: dict[str, Callable[[RunFolder], Any]] = {
    "commit": lambda run: (run.provenance.get("git") or {}).get("commit", UNKNOWN),
    "uncommitted changes": lambda run: bool((run.provenance.get("git") or {}).get("changed")),
    "torch": lambda run: run.provenance.get("versions", {}).get("torch", UNKNOWN),
    "transformers": lambda run: run.provenance.get("versions", {}).get("transformers", UNKNOWN),
    "processor": lambda run: run.provenance.get("environment", {}).get("processor", UNKNOWN),
}  # differences that make no comparison unfair, but may explain one


def incomparable(arms: Sequence[Arm], baseline: Arm) -> dict[str, list[str]]:
    """Why each arm cannot be compared with the baseline: name -> reasons; arms that can are left out.

    Seeds must be the same set, because the order of the data and every draw depend on them. A fact that a run did not
    record counts as different, unless no run recorded it.
    """
    found: dict[str, list[str]] = {}
    for arm in arms:
        reasons = [
            f"{aspect}: {_shown(mine)} against {_shown(theirs)}"
            for aspect, read in ASPECTS.items()
            if (mine := _values(arm, read)) != (theirs := _values(baseline, read)) or len(mine) > 1
        ]
        if arm.runs.keys() != baseline.runs.keys():
            reasons.append(f"seeds: {_shown(arm.runs)} against {_shown(baseline.runs)}")
        if reasons:
            found[arm.name] = reasons
    return found


def remarks(arms: Sequence[Arm]) -> list[str]:
    """What else differs between runs, and what nobody recorded."""
    runs = [run for arm in arms for run in arm.runs.values()]
    lines = [
        f"{aspect} differs: {_shown(values)}"
        for aspect, read in REMARKED.items()
        if len(values := dict.fromkeys(read(run) for run in runs)) > 1
    ]
    if unrecorded := [run.path.name for run in runs if not run.provenance]:
        lines.append(f"without provenance.json, so that data and model are unknown: {', '.join(unrecorded)}")
    return lines


def _values(arm: Arm, read: Callable[[RunFolder], Any]) -> list[Any]:
    return list(dict.fromkeys(read(run) for run in arm.runs.values()))


def _shown(values: Any) -> str:
    return " and ".join(map(str, values))
