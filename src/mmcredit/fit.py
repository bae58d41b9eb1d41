"""``python -m mmcredit.fit``: train by reinforcement learning. See ``--help``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from mmcredit.launch import launch


def fit(cfg: DictConfig) -> dict[str, Any]:
    """Validate, train, validate, export; returns the summary that is written to ``<run>/summary.json``."""
    from mmcredit.checks import check

    check(cfg)
    from mmcredit.build import build
    from mmcredit.checkpoints import resume_from
    from mmcredit.data.report import as_table, write
    from mmcredit.files import write_json
    from mmcredit.models.load import export
    from mmcredit.observers.summary import print_summary, scores, summarise
    from mmcredit.planning.warning import warn
    from mmcredit.provenance import measured_on, provenance, write_provenance

    began, run_dir = time.perf_counter(), Path(cfg.run_dir)
    cfg.ckpt_path = None if cfg.ckpt_path is None else str(resume_from(cfg.ckpt_path))
    warn(cfg)
    run = build(cfg)
    if run.trainer.is_global_zero:
        write_provenance(provenance(cfg, run.data), run_dir)
        write(run.sets, run_dir)
        print(as_table(run.sets))
    sets = measured_on(cfg, run.data)
    if cfg.ckpt_path is None:
        run.module.start_metrics, run.module.start_sets = scores(run.trainer, run.module, run.data), sets
    run.trainer.fit(run.module, datamodule=run.data, ckpt_path=cfg.ckpt_path, weights_only=True)
    summary = summarise(run.module, scores(run.trainer, run.module, run.data), sets, time.perf_counter() - began)
    export(run.module.policy, run.processor, run_dir / "policy")
    if run.trainer.is_global_zero:
        write(run.sets, run_dir)
        write_json(summary, run_dir / "summary.json")
        print_summary(summary)
        print(f"run folder {run_dir}")
    return summary


if __name__ == "__main__":
    launch(fit, "fit")
