"""The checks for GPUs, on a CPU: they pass, they can fail, and without a GPU they say so."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import gpu_check, gpu_checks, gpu_vllm_ranks
from benchmarks.gpu_check import main
from benchmarks.gpu_checks import Finding, Place, apart, at_most

HERE = Path(gpu_check.__file__).parent.parent


def test_without_a_gpu_it_says_so_in_one_line(capsys):
    assert main([]) == 2
    assert capsys.readouterr().err == f"{gpu_check.NO_GPU}\n"


def test_bf16_and_packed_rows_pass(capsys):
    assert main(["--cpu", "--checks", "bf16", "packed"]) == 0
    shown = capsys.readouterr().out
    assert "MISMATCH" not in shown and shown.count(" ok ") >= 6 and "checks on 2 x CPU" in shown


def test_block_masks_pass_where_they_run_without_a_backward_pass(capsys):
    assert main(["--cpu", "--checks", "flex"]) == 0
    shown = capsys.readouterr().out
    assert "MISMATCH" not in shown and shown.count(" ok ") >= 4 and "gradients: skipped" in shown


def test_a_mismatch_is_an_exit_status(monkeypatch, capsys):
    exact = gpu_checks.logp

    def wrong(scorer, rollout):
        return exact(scorer, rollout) + 1e-3 * scorer.packed

    monkeypatch.setattr(gpu_checks, "logp", wrong)
    assert main(["--cpu", "--checks", "packed"]) == 1
    assert "MISMATCH" in capsys.readouterr().out


def test_a_check_that_breaks_hides_no_other(monkeypatch, capsys):
    def broken(where):
        raise RuntimeError("out of memory")

    monkeypatch.setitem(gpu_checks.CHECKS, "packed", broken)
    monkeypatch.setitem(gpu_checks.CHECKS, "trl", lambda where: [Finding("ratio", 1.5)])
    assert main(["--cpu", "--checks", "packed", "trl"]) == 1
    shown = capsys.readouterr().out
    assert "RuntimeError: out of memory" in shown and "ratio" in shown


def test_what_is_no_number_is_no_agreement():
    assert at_most("x", 1.0, 1.0).ok and not at_most("x", 1.1, 1.0).ok and not at_most("x", float("nan"), 1.0).ok
    one, other = {"a": [1.0, -4.0]}, {"a": [1.0, -3.0]}
    assert apart(one, other, "a") == 0.25 and apart(one, {"a": [1.0]}, "a") == float("inf")


def test_a_gpu_is_looked_for_where_the_command_runs(monkeypatch):
    """Other benchmarks hide it."""
    hidden = "import benchmarks, os; print(repr(os.environ.get('CUDA_VISIBLE_DEVICES')))"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    for arguments, shown in (([], "''"), (["benchmarks.gpu_check"], "'1'"), ([gpu_vllm_ranks.SELF], "'1'")):
        command = [sys.executable, "-c", hidden, *arguments]
        assert subprocess.run(command, capture_output=True, text=True, cwd=HERE, check=True).stdout.strip() == shown


def test_a_vllm_over_two_ranks_is_looked_at_where_there_are_two(monkeypatch):
    """Without vLLM, or with one GPU, it says so; what a rank finds is reported for each."""
    parallel = gpu_checks.CHECKS["vllm_parallel"]
    monkeypatch.setattr(gpu_checks.importlib.util, "find_spec", lambda name: None)
    assert parallel(Place("gpu", 2, None))[0].what == "skipped: vLLM is not installed (docs/vllm.md)"
    monkeypatch.setattr(gpu_checks.importlib.util, "find_spec", lambda name: name)
    assert parallel(Place("gpu", 1, None))[0].what.endswith("needs two GPUs")

    def ran(command, **options):
        for rank in range(2):
            found = [{"what": "gap", "found": float(rank), "limit": 0.5, "ok": rank == 0}]
            (Path(command[-1]) / f"{rank}.json").write_text(json.dumps(found), "utf-8")
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", ran)
    assert [(f.what, f.verdict) for f in parallel(Place("cpu", 2, None))] == [
        ("gap, rank 0", "ok"), ("gap, rank 1", "MISMATCH"),
    ]  # fmt: skip


@pytest.mark.slow
def test_everything_that_can_run_on_a_cpu():
    command = [sys.executable, "-m", "benchmarks.gpu_check", "--cpu"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for check in gpu_checks.CHECKS:
        assert f"\n{check}: " in "\n" + done.stdout
    assert done.stdout.count("train/grad_norm, largest relative difference") == 2


def test_options_bring_a_run_to_the_place():
    assert Place("gpu", 4, None).options("fsdp")[:2] == ["trainer=fsdp", "trainer.accelerator=gpu"]
    assert Place("cpu", 2, "some/model").options()[-2:] == ["model=hub", "model.path=some/model"]
    assert "torch " + torch.__version__ in str(Place("cpu", 2, None))
