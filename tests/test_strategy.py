"""The strategy that shares models out: what it refuses, and that it needs no weights before."""

from __future__ import annotations

import pytest
from hydra.utils import instantiate
from test_fit import config

from mmcredit.build import build
from mmcredit.launch import register_resolvers
from mmcredit.strategy import Sharded
from mmcredit.types import UserError


def test_arithmetic_is_the_strategys_own_matter(tmp_path):
    trainer = instantiate(config(tmp_path, "trainer=fsdp", "trainer.precision=bf16-mixed", "trainer.devices=1").trainer)
    assert isinstance(trainer.strategy, Sharded)
    with pytest.raises(UserError, match=r"trainer.strategy.compute=bfloat16 in place of trainer.precision"):
        trainer.strategy.setup_environment()


def test_options_reach_the_sharding(tmp_path):
    options = ["trainer.strategy.compute=bfloat16", "trainer.strategy.sync_each=true"]
    strategy = instantiate(config(tmp_path, "trainer=fsdp", *options).trainer.strategy)
    assert strategy.sharding.compute == "bfloat16" and strategy.sharding.sync_each
    assert not strategy.sharding.offload_frozen and strategy.sharding.reduce == "float32"


@pytest.mark.parametrize(("trainer", "empty"), [("fsdp", True), ("ddp", False), ("cpu", False)])
def test_models_to_be_shared_out_are_built_without_weights(tmp_path, trainer, empty):
    register_resolvers()
    models = build(
        config(tmp_path, "experiment=world_pace", "algorithm.kl_coef=0.1", f"trainer={trainer}")
    ).module.scorer.models
    assert len(models) == 3
    for model in models.values():
        assert all(value.is_meta == empty for value in [*model.parameters(), *model.buffers()])
        assert model.hf.generation_config.pad_token_id is not None
