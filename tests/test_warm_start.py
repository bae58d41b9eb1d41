"""The warm start runs, teaches the vision tower, and goes on after its last finished phase."""

from __future__ import annotations

from functools import partial

import hydra
import torch
from hydra.utils import instantiate
from safetensors.torch import load_file

from mmcredit.data.templates import Template
from mmcredit.data.world.demonstrations import think
from mmcredit.data.world.scene import KINDS
from mmcredit.data.world.source import World
from mmcredit.models.supervision import DemonstrationSet, Phase, Seeing, cell_labels
from mmcredit.models.tiny import build_model
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.types import Box, SceneObject
from mmcredit.warm_start import teach

FAULTLESS = {"shortcut": 0.0, "slip": 0.0, "false_claim": 0.0}


def test_cell_labels_by_hand():
    labels = cell_labels([SceneObject("square", "red", "small", Box(70, 34, 20, 20))], KINDS)
    assert labels.nonzero().tolist() == [[1 * 4 + 2]]
    assert KINDS[int(labels[6]) - 1] == ("red", "square")


def test_seeing_lowers_its_loss(processor):
    """Twelve steps."""
    policy = VisionLanguageModel(build_model(processor.tokenizer))
    teaching = partial(Seeing, kinds=KINDS)
    phase = Phase(teaching, 12, 2e-3, 3, World("val", 12 * 8, 1, 0.0), {"think": think}, FAULTLESS)
    shown = DemonstrationSet([(Template("", ""), d) for _, d in phase.demonstrations()], processor, 0, 12 * 8)
    module = phase.teach(policy, phase, 0.0)
    batch = [shown[i] for i in range(8)]
    before = module.loss(batch).item()
    teach(module, shown, 8)
    assert module.loss(batch).item() < 0.6 * before


def test_phases_run_and_resume(tmp_path, capsys):
    """Three short phases by the shipped configuration; run again, nothing is trained twice and nothing changes."""
    overrides = ["job.batch=4", "job.begin.corpus_size=40", "run_dir=."]
    overrides += ["job.fit=['data=world','data.val.val.size=4','data.val.counter_prior.size=4']"]
    overrides += [f"job.out={tmp_path}/model", *(f"job.phases.{i}.steps={n}" for i, n in enumerate((2, 2, 1)))]

    def run() -> tuple[dict[str, dict[str, float]], dict[str, torch.Tensor]]:
        with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
            metrics = instantiate(hydra.compose("prepare", overrides=overrides).job)
        return metrics, load_file(tmp_path / "model" / "model.safetensors")

    first, weights = run()
    assert set(first) == {"think", "short_evidence"} and "val/accuracy" in first["think"]
    assert capsys.readouterr().out.count("Answering step") == 2
    again, same = run()
    assert again == first and "Answering step" not in capsys.readouterr().out
    assert all(torch.equal(weights[name], same[name]) for name in weights)
