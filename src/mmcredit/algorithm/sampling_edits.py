"""Whether a chain of methods can choose the pictures that a run samples from."""

from __future__ import annotations

from collections.abc import Sequence

from mmcredit.credit import CreditCallback
from mmcredit.scoring.edits import Original
from mmcredit.types import UserError


def check_sampling(chain: Sequence[CreditCallback], group: int, edits: bool = True) -> None:
    """At most one method chooses the pictures that are sampled from, and its shares of a group are whole.

    Args:
        edits: whether the engine can sample from edited pixels.

    Raises:
        UserError: they are not, the engine cannot, or an edit changes no pixels.
    """
    asked = {type(method).__name__: found for method in chain if (found := method.sampling_edits(0))}
    if len(asked) > 1:
        raise UserError(f"callbacks: {' and '.join(asked)} both choose the pictures to sample from; keep one of them")
    if asked and not edits:
        raise UserError(f"callbacks: {next(iter(asked))} samples from edited pictures, which needs rollout=hf")
    for name, versions in asked.items():
        if group % len(versions):
            raise UserError(
                f"rollout.group={group}: {name} samples equal shares of a group from {len(versions)} versions of the "
                f"picture; use a multiple of {len(versions)}"
            )
        if idle := [edit for edit in versions if not edit.touches_pixels and type(edit) is not Original]:
            raise UserError(f"callbacks: {name} samples under {type(idle[0]).__name__}, which changes no pixels")
