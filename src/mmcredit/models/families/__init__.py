"""What differs between families of vision-language models, one file of facts each."""

from __future__ import annotations

from types import ModuleType

from mmcredit.models.families import internvl, qwen2_5_vl, qwen3_5, qwen3_vl
from mmcredit.types import UserError

FAMILIES = {name: family for family in (internvl, qwen2_5_vl, qwen3_5, qwen3_vl) for name in family.MODEL_TYPES}


def family_of(model_type: str) -> ModuleType:
    """The facts about models of a type.

    Raises:
        UserError: no family knows the type.
    """
    if model_type not in FAMILIES:
        raise UserError(f"models of type {model_type!r} are not supported; known types: {', '.join(FAMILIES)}")
    return FAMILIES[model_type]
