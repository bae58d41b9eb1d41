"""All processes of a run know its name, whoever starts them."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from test_fit import losses

from mmcredit import processes
from mmcredit.checks import ranks
from mmcredit.observers.environment import places
from mmcredit.processes import check_processes, run_name
from mmcredit.types import UserError

VARIABLES = ("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_JOB_ID")
OPTIONS = ["algorithm.mini_batch=4", "algorithm.micro_batch=1", "rollout.group=6", "logger=csv"]
OPTIONS += ["data.train.size=64", "data.val.val.size=4", "data.val.counter_prior.size=0", "rollout.max_new_tokens=12"]
OPTIONS += ["callbacks=[]", "steps=3", "max_grad_norm=0.5", "algorithm.epochs=2"]
OPTIONS += ["optimizer.lr=1e-4", "+optimizer.eps=1e-3", "algorithm.kl_coef=0.05", "data.batch_size=8"]
TORCHRUN = ["-m", "torch.distributed.run"]


@pytest.fixture
def environment(monkeypatch):
    """Sets variables in an environment without any other of them."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    run_name.cache_clear()
    yield lambda **values: [monkeypatch.setenv(name, value) for name, value in values.items()]
    run_name.cache_clear()


@pytest.mark.parametrize(("devices", "count"), [(3, 3), ([2, 3], 2), ("2,3", 2), ("1,", 1)])
def test_processes_that_a_trainer_starts(devices, count):
    assert ranks(OmegaConf.create({"devices": devices, "num_nodes": 2, "accelerator": "gpu"})) == 2 * count


def test_a_process_alone(environment):
    assert (processes.rank(), processes.started()) == (0, None)
    assert len(run_name()) == len("2026-12-01/11-32-00") and run_name() == run_name()
    check_processes(8, 1)  # the trainer starts them
    with pytest.raises(UserError, match="num_nodes=2 needs torchrun or srun on every node"):
        check_processes(16, 2)


def test_torchrun(environment):
    environment(TORCHELASTIC_RUN_ID="none", RANK="3", WORLD_SIZE="4")
    assert (processes.rank(), processes.started()) == (3, 4)
    check_processes(4, 2)
    with pytest.raises(UserError, match=r"torchrun started 4 processes, but .* is 1: set trainer.devices"):
        check_processes(1, 1)


def test_srun(environment):
    environment(SLURM_STEP_NUM_TASKS="16", SLURM_PROCID="9", SLURM_JOB_ID="12", SLURM_STEP_ID="0")
    assert (processes.rank(), processes.started(), run_name()) == (9, 16, "slurm-12-0")
    environment(TORCHELASTIC_RUN_ID="x", RANK="0", WORLD_SIZE="2")  # torchrun on every node
    assert (processes.rank(), processes.started()) == (0, 2)


def test_places():
    assert places([("a", "CPU")]) == "1 rank on a (1): 1 x CPU"
    many = [(f"n{i // 2}", "H") for i in range(20)]
    assert places(many).endswith("n7 (2) and 2 more: 20 x H") and places(many).startswith("20 ranks on n0 (2), n1 (2)")


AGREE = """
import os, time
from pathlib import Path
from mmcredit.folders import own_folder
from mmcredit.processes import run_name
time.sleep(1.2 * int(os.environ["RANK"]))
folder = Path(__file__).parent
(folder / os.environ["RANK"]).write_text(f"{run_name()} {own_folder(str(folder / 'run'))}")
while len(list(folder.glob("[01]"))) < 2:  # as a run: none ends before all have begun
    time.sleep(0.05)
"""


@pytest.mark.parametrize("own", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["torchrun's store", "own"])
def test_processes_that_start_at_other_times_agree(own, tmp_path, monkeypatch):
    """The second process starts more than a second later; with and without a store of torchrun's."""
    program = tmp_path / "program.py"
    program.write_text(AGREE)
    (tmp_path / "run").mkdir()
    if own:
        monkeypatch.setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    command = [sys.executable, *TORCHRUN, "--standalone", "--nproc-per-node", "2", str(program)]
    subprocess.run(command, capture_output=True, check=True, timeout=120)
    (name, folder), other = ((tmp_path / rank).read_text().split() for rank in "01")
    assert [name, folder] == other and len(name) == len("2026-12-01/11-32-00") and folder == f"{tmp_path}/run-2"


def fit(folder: Path, command: list[str], *options: str) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, *command, "-m", "mmcredit.fit", *OPTIONS, *options]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def outputs(*running: subprocess.Popen[bytes]) -> str:
    texts = [process.communicate(timeout=300)[0].decode() for process in running]
    assert all(process.returncode == 0 for process in running), "\n".join(texts)
    return "\n".join(texts)


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> dict[int, float]:
    folder = tmp_path_factory.mktemp("alone")
    outputs(fit(folder, [], "hydra.run.dir=run"))
    return {step: float(loss) for step, loss in losses(folder / "run").items()}


def one_run(folder: Path, alone: dict[int, float], text: str) -> Path:
    """The one run folder below ``runs``; its losses are those of one process; told once where it ran."""
    (config,) = (folder / "runs").rglob("config/config.yaml")
    (summary,) = (folder / "runs").rglob("summary.json")
    run = config.parent.parent
    assert summary.parent == run and len(list(run.glob("*.log"))) == 1
    assert {s: float(loss) for s, loss in losses(run).items()} == pytest.approx(alone, abs=1e-5)
    assert len(alone) == len(set(alone.values())) == 3
    assert text.count("2 ranks on ") == text.count("run folder ") == text.count("step 3/3") == 1
    assert "2 x CPU; gloo, " in text
    return run


@pytest.mark.slow
@pytest.mark.parametrize("trainer", ["fsdp", "ddp"])
def test_torchrun_on_one_machine(trainer, alone, tmp_path, monkeypatch):
    """Once without a store of torchrun's, too."""
    if trainer == "ddp":
        monkeypatch.setenv("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    options = [f"trainer={trainer}", "trainer.devices=2"]
    run = one_run(tmp_path, alone, outputs(fit(tmp_path, [*TORCHRUN, "--nproc-per-node", "2"], *options)))
    resumed = fit(tmp_path / "more", [*TORCHRUN, "--nproc-per-node=2"], *options, f"ckpt_path={run}", "steps=4")
    assert "step 4/4" in outputs(resumed)


@pytest.mark.slow
@pytest.mark.parametrize("rendezvous", ["static", "c10d"])
def test_two_nodes_of_torchrun(rendezvous, alone, tmp_path):
    """Two invocations, as on two machines that share the folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    meet = ["--nnodes=2", "--nproc-per-node=1"]
    if rendezvous == "c10d":
        own = [["--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{port}"]] * 2
    else:
        own = [["--master-addr=127.0.0.1", f"--master-port={port}", f"--node-rank={n}"] for n in range(2)]
    options = ["trainer=fsdp", "trainer.devices=1", "trainer.num_nodes=2"]
    nodes = [fit(tmp_path, [*TORCHRUN, *meet, *node], *options) for node in own]
    one_run(tmp_path, alone, outputs(*nodes))


@pytest.mark.slow
def test_two_tasks_of_srun(alone, tmp_path, monkeypatch):
    """With the variables that srun sets."""
    slurm = {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2"}
    slurm |= {"SLURM_NODEID": "0", "SLURM_JOB_NAME": "fit", "SLURM_NODELIST": "127.0.0.1", "SLURM_NTASKS_PER_NODE": "2"}
    tasks = []
    for task in range(2):
        for name, value in (slurm | {"SLURM_PROCID": str(task), "SLURM_LOCALID": str(task)}).items():
            monkeypatch.setenv(name, value)
        tasks.append(fit(tmp_path, [], "trainer=ddp", "trainer.devices=2"))
    assert one_run(tmp_path, alone, outputs(*tasks)) == tmp_path / "runs" / "slurm-4711-0"


@pytest.mark.slow
def test_another_number_of_processes_is_one_line(tmp_path):
    process = fit(tmp_path, [*TORCHRUN, "--nproc-per-node=2"], "trainer=fsdp", "trainer.devices=1")
    text = process.communicate(timeout=300)[0].decode()
    assert process.returncode and "error: torchrun started 2 processes, but trainer.devices x" in text
