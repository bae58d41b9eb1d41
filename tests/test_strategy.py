"""What the strategy that shares models out refuses."""

from __future__ import annotations

import pytest
from hydra.utils import instantiate
from test_fit import config

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
