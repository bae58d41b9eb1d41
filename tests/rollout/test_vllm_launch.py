"""vLLM starts on the GPU on which its process trains."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch

from mmcredit.rollout.vllm_launch import alone


class UniProcExecutor:
    """vLLM's own, of which one method counts here."""

    def _distributed_args(self) -> tuple[str, int, int]:
        return "address", 0, 0


@pytest.fixture(autouse=True)
def vllm(monkeypatch):
    module = ModuleType("vllm.v1.executor.uniproc_executor")
    module.UniProcExecutor = UniProcExecutor
    monkeypatch.setitem(sys.modules, module.__name__, module)


def test_a_single_process_on_another_gpu_than_the_first_starts_vllm_there(monkeypatch):
    """As in trainer.devices=[2]; vLLM would take the first one."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 2)
    executor = alone()["distributed_executor_backend"]
    assert executor()._distributed_args() == ("address", 0, 2)


@pytest.mark.parametrize("available", [True, False])
def test_on_the_first_gpu_and_on_a_cpu_vllm_starts_as_it_likes(monkeypatch, available):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    assert alone() == {}
