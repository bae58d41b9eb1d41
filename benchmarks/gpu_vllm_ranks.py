"""One vLLM spread over two ranks against the Hugging Face engine on each (``benchmarks.gpu_checks``).

``torchrun --nproc-per-node 2 -m benchmarks.gpu_vllm_ranks gpu MODEL FOLDER``: every rank has prompts of its own,
compares its replies, and writes what it found to ``FOLDER/<rank>.json``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import torch
from hydra.utils import instantiate
from torch import distributed

from benchmarks.gpu_checks import TORCHRUN, Finding, Place
from benchmarks.gpu_vllm import agree, options
from benchmarks.ours import composed
from mmcredit.build import policy_alone
from mmcredit.data.encode import Encoder
from mmcredit.rollout.vllm_group import colocated

RANKS, PROMPTS = 2, ((0, 3), (3, 4))  # of each rank, samples of the default training set: more on the first
SECONDS = 1800
SELF = "benchmarks.gpu_vllm_ranks"


def compare_ranks(where: Place) -> list[Finding]:
    """What the ranks found, one after another.

    Raises:
        RuntimeError: they failed; with the end of what they printed.
    """
    if where.devices < RANKS:
        return [Finding("skipped: a vLLM that is spread over two ranks needs two GPUs")]
    with tempfile.TemporaryDirectory() as folder:
        given = [f"--nproc-per-node={RANKS}", "-m", SELF, where.kind, where.model or "", folder]
        room = {"VLLM_CPU_KVCACHE_SPACE": os.environ.get("VLLM_CPU_KVCACHE_SPACE", "1")}  # GiB a rank
        command = [sys.executable, *TORCHRUN, *given]
        done = subprocess.run(
            command, env=os.environ | room, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if "Error: " in line]  # torchrun's summary comes after it
            raise RuntimeError(said[0] if said else done.stderr[-250:])
        found = [json.loads((Path(folder) / f"{rank}.json").read_text("utf-8")) for rank in range(RANKS)]
    return [
        Finding(**part | {"what": f"{part['what']}, rank {rank}"}) for rank, parts in enumerate(found) for part in parts
    ]


def measure(kind: str, model: str, folder: Path) -> None:
    """On one rank."""
    rank = int(os.environ["RANK"])
    if kind == "gpu":
        torch.cuda.set_device(rank)
    distributed.init_process_group("nccl" if kind == "gpu" else "gloo")
    named = ["model=hub", f"model.path={model}"] if model else []
    cfg = composed("model.policy.dtype=float32", *named)
    processor, source = instantiate(cfg.model.processor), instantiate(cfg.data.train)
    policy = policy_alone(cfg.model, processor)
    prompts = Encoder(processor, instantiate(cfg.template))([source[i] for i in range(*PROMPTS[rank])])
    core = colocated(cfg.model.path, tensor_parallel_size=RANKS, **options(kind))
    torch.manual_seed(0)  # the same update on all ranks
    found = agree(kind, policy, prompts, core)
    (folder / f"{rank}.json").write_text(json.dumps([asdict(part) for part in found]), "utf-8")
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    measure(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
