"""``python -m mmcredit.evaluate benchmark=... model=...``: accuracy of a model. See ``--help``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from mmcredit.launch import launch


def evaluate(cfg: DictConfig) -> dict[str, Any]:
    """Generate, then score; returns the scores (empty for ``stage=generate``)."""
    from hydra.utils import instantiate

    from mmcredit.evaluation.files import Folder
    from mmcredit.evaluation.score import Benchmark, score
    from mmcredit.types import UserError

    stages = {"generate": (True, False), "score": (False, True), "all": (True, True)}
    if cfg.stage not in stages:
        raise UserError(f"stage={cfg.stage} must be one of {', '.join(stages)}")
    generating, scoring = stages[cfg.stage]
    bootstrap = instantiate(cfg.bootstrap)
    benchmark = Benchmark(
        cfg.benchmark.name,
        instantiate(cfg.benchmark.scorers, _convert_="all"),
        instantiate(cfg.benchmark.get("fields") or {}, _convert_="all"),
        list(cfg.benchmark.get("cluster") or ()),
    )
    folder = Folder(Path(cfg.out).expanduser())
    if generating:
        predict(cfg, folder)
    if cfg.get("export"):
        instantiate(cfg.export)
    if not scoring:
        return {}
    report = score(folder, benchmark, cfg.scorer, cfg.k, bootstrap)
    print((folder.path / "scores.md").read_text("utf-8"))
    print(f"folder {folder.path}")
    return report


def predict(cfg: DictConfig, folder: Any) -> None:
    """Load data and model, and ask for the responses that the folder lacks."""
    import torch
    from hydra.utils import instantiate

    from mmcredit.build import choose_threads, quiet
    from mmcredit.checks import check_numbers, missing_weights
    from mmcredit.evaluation.generate import generate
    from mmcredit.evaluation.respond import Responder
    from mmcredit.types import UserError

    check_numbers(cfg)
    if missing := missing_weights(cfg):
        raise UserError(f"this evaluation cannot start here: {'; '.join(missing)}")
    quiet()
    source, engine, template = (
        instantiate(part, _convert_="all") for part in (cfg.benchmark.source, cfg.rollout.engine, cfg.template)
    )
    nodes = {"source": cfg.benchmark.source, "template": cfg.template, "model": cfg.model}
    law = {key: value for key, value in OmegaConf.to_container(cfg.rollout, resolve=True).items() if key in LAW}
    plain = {key: OmegaConf.to_container(node, resolve=True) for key, node in nodes.items()}
    folder.pin({"benchmark": cfg.benchmark.name, "questions": len(source), "seed": cfg.seed, "rollout": law, **plain})
    processor, policy = instantiate(cfg.model.processor), instantiate(cfg.model.policy)
    choose_threads(policy)
    policy.to("cuda" if torch.cuda.is_available() else "cpu")
    generate(source, Responder(policy, processor, engine, template), folder, cfg.k, cfg.batch)


LAW = ("temperature", "top_p", "max_new_tokens")  # what the responses depend on, of the rollout

if __name__ == "__main__":
    launch(evaluate, "evaluate")
