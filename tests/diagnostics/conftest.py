"""Two small banks of the shipped model's responses to the embedded world, and settings to measure them in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import hydra
import pytest
import torch

from mmcredit.data.encode import Encoder
from mmcredit.diagnose import diagnose
from mmcredit.diagnostics.bank import Bank, load
from mmcredit.diagnostics.setting import Setting
from mmcredit.evaluation.statistics import Bootstrap
from mmcredit.models.load import frozen_copy, load_policy
from mmcredit.models.processor import load_processor
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.prepare import prepare
from mmcredit.reward.rule import RuleReward
from mmcredit.reward.verifier import AnswerVerifier
from mmcredit.rollout.hf import HFEngine
from mmcredit.rollout.sampling import SamplingLaw

SHIPPED = str(Path(__import__("mmcredit.models").models.__file__).parent / "tiny_qwen3vl")


def build_bank(folder: Path, *overrides: str) -> dict[str, Any]:
    """Through the entry point; returns its counts."""
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        given = ["job=reference_bank", f"job.out={folder}", f"run_dir={folder}", *overrides]
        return prepare(hydra.compose("prepare", overrides=given))


def run_diagnose(folder: Path, *overrides: str) -> dict[str, Any]:
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        given = [f"out={folder}", f"run_dir={folder}", "name=test", "bootstrap.replicates=50", *overrides]
        return diagnose(hydra.compose("diagnose", overrides=given))


@pytest.fixture(scope="session")
def think_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("think")
    build_bank(folder, "job.questions=16", "job.batch=8")
    return folder


@pytest.fixture(scope="session")
def think_bank(think_folder: Path) -> Bank:
    return load(think_folder)


@pytest.fixture(scope="session")
def short_bank(tmp_path_factory: pytest.TempPathFactory) -> Bank:
    folder = tmp_path_factory.mktemp("short")
    build_bank(folder, "job.questions=28", "template=short_evidence", "rollout.group=3")
    return load(folder)


@pytest.fixture(scope="session")
def shipped() -> VisionLanguageModel:
    return load_policy(SHIPPED).eval()


@pytest.fixture(scope="session")
def blind(shipped: VisionLanguageModel) -> VisionLanguageModel:
    """The shipped model with its vision zeroed."""
    model = frozen_copy(shipped)
    with torch.no_grad():
        for parameter in model.family.vision_tower(model.hf).parameters():
            parameter.zero_()
    return VisionLanguageModel(model.hf)


@pytest.fixture(scope="session")
def make_setting() -> Callable[..., Setting]:
    """Of a bank and models by name; replicates are few."""

    def make(bank: Bank, group: int = 2, batch: int = 8, **models: VisionLanguageModel) -> Setting:
        return Setting(
            bank=bank,
            encoder=Encoder(load_processor(SHIPPED), bank.template),
            checkpoints={name: partial(_same, model) for name, model in models.items()},
            engine=HFEngine(SamplingLaw(group, max_new_tokens=24), seed=0),
            grade=RuleReward(AnswerVerifier(), bank.template),
            bootstrap=Bootstrap(200),
            batch=batch,
        )

    return make


def _same(model: VisionLanguageModel) -> VisionLanguageModel:
    return model
