"""Sizes for which a vLLM was started: it fails over more pictures, and cuts longer responses short without a word."""

from __future__ import annotations

from mmcredit.types import UserError


def check_pictures(most: int, allowed: int) -> None:
    """Whether the prompt with most pictures has no more than are allowed.

    Raises:
        UserError: it has.
    """
    if most > allowed:
        raise UserError(
            f"there is a prompt with {most} pictures, and vLLM was started for {allowed}: use "
            f"rollout.engine.core.images={most} (a server: python -m mmcredit.serve core.images={most})"
        )


def check_tokens(prompt: int, new: int, allowed: int) -> None:
    """Whether the longest prompt leaves room for the longest response.

    Args:
        prompt, new: tokens of them.
        allowed: tokens of both together.

    Raises:
        UserError: it does not.
    """
    if (needed := prompt + new) > allowed:
        raise UserError(
            f"there is a prompt of {prompt} tokens, and rollout.max_new_tokens={new}: more than the {allowed} for "
            f"which vLLM was started; use rollout.engine.core.max_model_len={needed} (a server: python -m "
            f"mmcredit.serve core.max_model_len={needed}), or less of either"
        )
