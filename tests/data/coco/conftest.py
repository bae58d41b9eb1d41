"""One corpus of digits for all tests of COCO."""

from __future__ import annotations

import json
from pathlib import Path

import hydra
import pytest
from hydra.utils import instantiate
from tests.data.coco.corpus import corpus

from mmcredit.data.coco.construct import Recipe


def recipe(*overrides: str) -> Recipe:
    """The shipped rules, every question kept, token of the tiny model."""
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        base = ["questions.ratio=null", "questions.fitness.token=32"]
        cfg = hydra.compose("prepare", ["job=coco_evidence", *base, *overrides])
    return instantiate(cfg.questions)


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, dict]:
    """The instances file, the folder of images, and what the file holds."""
    path, images = corpus(tmp_path_factory.mktemp("coco"), 160)
    return path, images, json.loads(path.read_text())
