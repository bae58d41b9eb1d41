"""Where a run runs, in two lines at its start."""

from __future__ import annotations

import platform
import socket
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version

import lightning
import torch
from torch import distributed

from mmcredit.functional import gather, world

PACKAGES = ("mmcredit", "torch", "lightning", "transformers")
SHOWN = 8  # hosts named at most


class Environment(lightning.Callback):
    """The first rank prints hosts, devices, backend and versions, once."""

    def __init__(self) -> None:
        self.told = False

    def setup(self, trainer: lightning.Trainer, pl_module: lightning.LightningModule, stage: str) -> None:
        if self.told:
            return
        self.told = True
        device = trainer.strategy.root_device
        kind = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
        found = gather((socket.gethostname(), kind))
        if trainer.is_global_zero:
            backend = f"{distributed.get_backend()}, " if world() > 1 else ""
            print(f"{places(found)}; {backend}{type(trainer.strategy).__name__}, {trainer.precision}")
            print(", ".join([f"Python {platform.python_version()}", *(f"{name} {version(name)}" for name in PACKAGES)]))


def places(found: Sequence[tuple[str, str]]) -> str:
    """Host and kind of device of every rank, counted."""
    hosts, kinds = Counter(host for host, _ in found), Counter(kind for _, kind in found)
    named = [f"{host} ({count})" for host, count in list(hosts.items())[:SHOWN]]
    more = f" and {len(hosts) - SHOWN} more" if len(hosts) > SHOWN else ""
    devices = ", ".join(f"{count} x {kind}" for kind, count in kinds.items())
    return f"{len(found)} rank{'s' if len(found) > 1 else ''} on {', '.join(named)}{more}: {devices}"
