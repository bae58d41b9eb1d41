"""(d) Peak memory of log-probs at a large vocabulary: the head in chunks against the full matrix.

Each measurement is a fresh process (``python -m benchmarks.memory``) that reports how far its resident memory rose
above what it held before. Linux only: the peak is VmHWM, which unlike ``ru_maxrss`` is not inherited from the parent.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from benchmarks.settings import Settings
from benchmarks.table import Row, Table
from benchmarks.timing import clocked
from mmcredit.models import vlm

NAIVE = 0  # chunk size that stands for the full matrix
ROOT = Path(__file__).parent.parent
Measured = tuple[dict[str, float], Tensor]  # megabytes and seconds; the values


class Head(vlm.VisionLanguageModel):
    """The library's chunked head over a linear layer, without a model before it."""

    def __init__(self, linear: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.linear = linear

    @property
    def vocabulary(self) -> int:
        return self.linear.out_features

    def logits(self, hidden_RD: Tensor) -> Tensor:
        return cast(Tensor, self.linear(hidden_RD)).float()


def log_probs(linear: nn.Linear, hidden: Tensor, targets: Tensor, chunk: int) -> Tensor:
    """[S] log-prob of each target, by the library or with one matrix of all logits."""
    if chunk == NAIVE:
        return linear(hidden).log_softmax(-1).gather(1, targets[:, None])[:, 0]
    vlm.HEAD_ELEMENTS = chunk * linear.out_features
    return Head(linear).head(hidden, targets).logp_S


def resident(field: str) -> int:
    """Bytes: ``VmRSS`` now, ``VmHWM`` at the most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))


def measure(args: argparse.Namespace) -> dict[str, float]:
    """Seconds and growth of the peak in this process; the values go to a file."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    linear = nn.Linear(args.hidden, args.vocabulary, bias=False)
    hidden = torch.randn(args.scored, args.hidden, requires_grad=args.gradients)
    targets = torch.randint(args.vocabulary, (args.scored,))
    before = resident("VmRSS")
    values: list[Tensor] = []

    def work() -> None:
        with torch.set_grad_enabled(args.gradients):
            logp = log_probs(linear, hidden, targets, args.chunk)
            values.append(logp.detach())
            if args.gradients:
                logp.sum().backward()

    seconds = clocked(work)
    peak = resident("VmHWM")
    torch.save(values[0], args.out)
    return {"mb": (peak - before) / 2**20, "seconds": seconds}


def in_a_process(settings: Settings, chunk: int, gradients: bool, out: Path) -> Measured:
    """A measurement in a fresh process, and its values."""
    sizes = {"chunk": chunk, "vocabulary": settings.vocabulary, "scored": settings.scored, "hidden": settings.hidden}
    arguments = [f"--out={out}", *(f"--{name}={size}" for name, size in sizes.items())]
    arguments += ["--gradients"] if gradients else []
    return json.loads(launched(arguments).splitlines()[-1]), torch.load(out)


def launched(arguments: Sequence[str]) -> str:
    """Output of this module in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.memory", *arguments]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


def compared(found: Measured, full: Measured) -> dict[str, float]:
    """Columns: peak, its share of the full matrix's, seconds, largest difference of a value in nats."""
    megabytes, difference = found[0]["mb"], float((found[1] - full[1]).abs().max())
    share = {"peak_mb": megabytes, "of_full": megabytes / full[0]["mb"]}
    return share | {"seconds": found[0]["seconds"], "max_difference": difference}


def run(settings: Settings) -> list[Table]:
    """The table of this section."""
    rows: list[Row] = []
    shipped = vlm.HEAD_ELEMENTS // settings.vocabulary
    names = {shipped: f"chunks of {shipped} (shipped)"}
    names |= {chunk: f"chunks of {chunk}" for chunk in settings.chunks}
    with tempfile.TemporaryDirectory() as folder:
        for gradients in (False, True):
            full = in_a_process(settings, NAIVE, gradients, Path(folder) / "values.pt")
            kind = "with gradients" if gradients else "forward"
            rows.append({"pass": kind, "head": "full matrix", **compared(full, full)})
            for chunk, name in names.items():
                found = in_a_process(settings, chunk, gradients, Path(folder) / "values.pt")
                rows.append({"pass": kind, "head": name, **compared(found, full)})
    title = f"(d) log-probs of {settings.scored} tokens, vocabulary {settings.vocabulary}, width {settings.hidden}"
    notes = ["the full matrix gives log-probs only; the chunked head gives the entropy as well"]
    return [Table(title, rows, notes)]


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """What to measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("chunk", "vocabulary", "scored", "hidden"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    print(json.dumps(measure(parse())))
