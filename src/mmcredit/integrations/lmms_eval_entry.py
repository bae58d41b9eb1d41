"""What lmms-eval reads at its start (entry point group ``lmms_eval.models``): the name of the model, nothing heavy."""

from __future__ import annotations

from typing import Any


def manifest() -> Any:
    """``--model mmcredit``."""
    from lmms_eval.models.registry_v2 import ModelManifest

    return ModelManifest(model_id="mmcredit", chat_class_path="mmcredit.integrations.lmms_eval_model.LmmsEvalModel")
