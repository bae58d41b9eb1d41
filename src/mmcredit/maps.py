"""The credit of several chains of methods for the same responses, on one page (``python -m mmcredit.report maps``, or
``python -m mmcredit.maps``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig

from mmcredit.types import UserError

if TYPE_CHECKING:
    from mmcredit.credit import CreditCallback
    from mmcredit.module import CreditModule, StepReport
    from mmcredit.types import Rollout

EXAMPLE = "methods=[[],[vppo],[vppo,pacg]]"


def with_callbacks(overrides: Sequence[str]) -> list[str]:
    """The overrides with ``callbacks=[...]`` for every method that ``methods=`` names: their group is composed, and
    checked, like that of a run.

    Raises:
        UserError: methods is no list of lists of names, or callbacks is given beside it.
    """
    given = [o for o in overrides if o.split("=")[0] == "methods"]
    if not given:
        return list(overrides)
    if any(o.split("=")[0] == "callbacks" for o in overrides):
        raise UserError("methods= names the callbacks of each chain: leave callbacks= out")
    try:
        chains: Any = OverridesParser.create().parse_override(given[-1]).value()
    except HydraException:
        chains = None
    lists = [chains, *chains] if isinstance(chains, list) else [None]
    if not all(isinstance(part, list) for part in lists) or not all(isinstance(n, str) for c in chains for n in c):
        raise UserError(f"{given[-1]}: a list of lists of methods is needed, e.g. '{EXAMPLE}'")
    names = dict.fromkeys(name for chain in chains for name in chain)
    return [*overrides, f"callbacks=[{','.join(names)}]"]


def maps(cfg: DictConfig) -> Path:
    """Sample one rollout, give credit to it by each chain, and write the page; returns its path."""
    from mmcredit.checks import check

    check(cfg)
    from mmcredit.build import build
    from mmcredit.files import write_text
    from mmcredit.reporting.credit_map import chain_name, credit_map, worth_showing
    from mmcredit.reporting.credit_page import credit_page

    for part in (cfg.get("callbacks") or {}).values():
        if "refresh_every" in part:
            part.refresh_every = 1  # the teacher is the policy itself, so methods need not agree on an interval
    cfg.trainer.strategy = "auto"  # nothing is trained: one process, with whole models
    run = build(cfg)
    module, sets = run.module, {"train": run.data.train, **run.data.val}
    if cfg.set not in sets:
        raise UserError(f"set={cfg.set} does not exist; use one of {', '.join(sets)}")
    places = range(cfg.start, min(cfg.start + cfg.data.batch_size, len(sets[cfg.set])))
    if not places:
        raise UserError(f"start={cfg.start}: {cfg.set} has {len(sets[cfg.set])} samples, counted from 0")
    names = [name for name, part in (cfg.get("callbacks") or {}).items() if "_target_" in part]
    known, own = dict(zip(names, module.chain, strict=True)), tuple(module.chain)
    wanted = [[known[n] for n in chain] for chain in cfg.methods] if cfg.methods is not None else [[], list(own)]
    chains = {chain_name(chain): chain for chain in wanted}
    rollout = sampled(module, run.data.encoder([sets[cfg.set][i] for i in places]))
    reports = {name: credited(module, chain, rollout) for name, chain in chains.items()}
    views = [view for method in own for view in method.extra_views(module.scorer.seed)]
    title = f"Credit map: {', '.join(chains)}"
    shown = worth_showing(list(reports.values()))[: cfg.samples]
    page = credit_map(title, reports, shown, cfg.responses, views, module.tally.contradicts)
    path = Path(cfg.out)
    write_text(path, credit_page(page, cfg.max_mb))
    print(f"{len(page.panels)} prompts, {len(chains)} chains: {path}")
    return path


def sampled(module: CreditModule, prompts: Any) -> Rollout:
    """Responses to the pictures as they are, whatever a method would sample from, with their log-probs."""
    from mmcredit.credit import Record
    from mmcredit.scoring.views import View

    module.scorer.to(module.device)
    module.chain = ()
    rollout = module.sample(prompts, Record())
    return replace(rollout, logp_BGT=module.scorer.logp(rollout, View()).clone())


def credited(module: CreditModule, chain: Sequence[CreditCallback], rollout: Rollout) -> StepReport:
    """What a chain makes of a rollout: reward, advantage, and the loss terms of each token, without any update."""
    import torch

    from mmcredit.algorithm.statistics import describe
    from mmcredit.credit import Record, advantage_chain, reward_chain
    from mmcredit.module import StepReport

    record, scorer = Record(per_token={}), module.scorer
    for method in chain:
        method.on_rollout(rollout, record)
    rewarded = reward_chain(chain, rollout, scorer, record)
    advantage_BG = module.algorithm.advantage(rewarded.reward_BG)
    advantage_BGT = advantage_chain(chain, rewarded, advantage_BG, scorer, record)
    with torch.no_grad():
        for method in chain:
            if (term := method.on_loss(rewarded, rewarded.logp_BGT, scorer, record)) is not None:
                record.tokens(f"loss/{type(method).__name__}", term * rewarded.mask_BGT.to(term.device))
    describe(rewarded, advantage_BG, record)
    return StepReport(rewarded, advantage_BGT, record)


if __name__ == "__main__":
    import sys

    from mmcredit.report import main

    sys.exit(main(["maps", *sys.argv[1:]]))
