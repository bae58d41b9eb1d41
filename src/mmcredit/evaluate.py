"""``python -m mmcredit.evaluate benchmark=... model=...``: accuracy of a model. See ``--help``."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from mmcredit.launch import launch


def evaluate(cfg: DictConfig) -> dict[str, Any]:
    """Generate, then score; returns the scores (empty for ``stage=generate``, the table for ``stage=average``)."""
    from hydra.utils import instantiate

    from mmcredit.checks import check_numbers
    from mmcredit.evaluation.average import average
    from mmcredit.evaluation.files import Folder
    from mmcredit.evaluation.score import Benchmark, score
    from mmcredit.types import UserError

    if cfg.stage not in STAGES:
        raise UserError(f"stage={cfg.stage} must be one of {', '.join(STAGES)}")
    check_numbers(cfg)
    generating, scoring, averaging = STAGES[cfg.stage]
    if averaging:
        return average(Path(cfg.out).expanduser())
    bootstrap = instantiate(cfg.bootstrap)
    part, made = cfg.benchmark, partial(instantiate, _convert_="all")
    scorers, fields = made(part.scorers), made(part.get("fields") or {})
    benchmark = Benchmark(part.name, scorers, fields, list(part.get("cluster") or ()), part.get("headline"))
    if scoring:
        benchmark.check(cfg.scorer)
    folder = Folder(Path(cfg.out).expanduser())
    if generating:
        predict(cfg, folder)
    if cfg.get("export"):
        instantiate(cfg.export)
    if not scoring:
        return {}
    report = score(folder, benchmark, cfg.scorer, cfg.k, bootstrap)
    print(f"{(folder.path / 'scores.md').read_text('utf-8')}\nfolder {folder.path}")
    return report


def predict(cfg: DictConfig, folder: Any) -> None:
    """Ask for the responses that the folder lacks; the model is loaded when the first one is needed."""
    from hydra.utils import instantiate

    from mmcredit.build import quiet
    from mmcredit.evaluation.generate import generate
    from mmcredit.missing import missing_weights
    from mmcredit.types import UserError

    if cfg.rollout.temperature == 0 and cfg.k > 1:
        raise UserError(f"rollout.temperature=0 gives {cfg.k} equal responses a question: add k=1")
    if missing := missing_weights(cfg):
        raise UserError(f"this evaluation cannot start here: {'; '.join(missing)}")
    quiet()
    source = instantiate(cfg.benchmark.source, _convert_="all")
    nodes = {"source": cfg.benchmark.source, "template": cfg.template, "model": cfg.model, "rollout": cfg.rollout}
    settings: Any = {key: OmegaConf.to_container(node, resolve=True) for key, node in nodes.items()}
    settings["rollout"] = {key: settings["rollout"][key] for key in LAW} | {"engine": cfg.rollout.engine._target_}
    folder.pin({"benchmark": cfg.benchmark.name, "questions": len(source), "seed": cfg.seed, **settings})
    loaded = cache(partial(responder, cfg))
    generate(source, lambda samples: loaded()(samples), folder, cfg.k, cfg.batch)  # noqa: PLW0108


def responder(cfg: DictConfig) -> Any:
    """The model, on a GPU if there is one."""
    from hydra.utils import instantiate

    from mmcredit.build import policy_alone
    from mmcredit.evaluation.respond import Responder

    engine, template = instantiate(cfg.rollout.engine), instantiate(cfg.template)
    processor = instantiate(cfg.model.processor)
    return Responder(policy_alone(cfg.model, processor), processor, engine, template)


STAGES = {  # whether it generates, scores, averages
    "generate": (True, False, False), "score": (False, True, False), "all": (True, True, False),
    "average": (False, False, True),
}  # fmt: skip
LAW = ("temperature", "top_p", "max_new_tokens")  # what the responses depend on, of the rollout

if __name__ == "__main__":
    launch(evaluate, "evaluate")
