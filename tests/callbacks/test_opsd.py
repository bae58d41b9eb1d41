"""OPSD against full logits of teacher and student, and its promises in whole runs."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.callbacks.hinted_case import make_rollout as rollout_of
from tests.conftest import TEMPLATE
from tests.scoring.test_divergence import TOLERANCE, full
from tests.test_fit import SMALL, config, losses

from mmcredit.build import build
from mmcredit.callbacks.opsd import OPSD
from mmcredit.credit import Record
from mmcredit.data.encode import Encoder
from mmcredit.data.sources.jsonl import Jsonl
from mmcredit.data.world.source import World
from mmcredit.fit import fit
from mmcredit.scoring.divergence import forward_kl, jensen_shannon, reverse_kl
from mmcredit.scoring.hints import solution_hints
from mmcredit.scoring.views import Hints, View, Weights
from mmcredit.types import Rollout, Sample, UserError

RUN = [*SMALL, "experiment=world_opsd", "data.val.val.size=0", "data.val.counter_prior.size=0"]
LINES = ["Reference solution: one . \n\\boxed{2}", None, "Reference solution: 2", "Reference solution: both ."]


@pytest.fixture(scope="module")
def rollout(make_rollout, prompts, processor) -> Rollout:
    """Samples with a solution and an answer, with neither, with an answer, with a solution alone."""
    given = [{"solution": "one . \n\\boxed{2} "}, {}, {}, {"solution": "both ."}]
    answers = ["2", " $ ", "2", ""]
    samples = [
        replace(sample, meta=meta, answer=answer)
        for sample, meta, answer in zip(prompts.samples, given, answers, strict=True)
    ]
    return make_rollout(seed=6, shown=replace(prompts, samples=tuple(samples)))


def test_the_hint_is_the_solution_else_the_answer(rollout):
    assert [set(lines) for lines in solution_hints(rollout, "Reference solution: {solution}").lines] == [
        {line} for line in LINES
    ]


@pytest.mark.parametrize(
    "divergence", [forward_kl, reverse_kl, partial(jensen_shannon, beta=0.3)], ids=["forward", "reverse", "jsd"]
)
def test_loss_equals_full_logits(rollout, make_scorer, divergence):
    scorer, record = make_scorer(), Record()
    method = OPSD(divergence, coef=0.7)
    found = method.on_loss(rollout, scorer.train_scores(rollout).logp_S, scorer, record)
    view, values = View(Weights.REFERENCE, hints=Hints(tuple((line,) * 3 for line in LINES))), []
    for b in range(4):
        for g in range(3):
            n = int(rollout.mask_BGT[b, g].sum())
            assert not found[b, g, n:].any()
            if b == 1:
                assert not found[b, g].any()
                continue
            with torch.no_grad():
                pair = full(scorer, rollout, View(), b, g), full(scorer, rollout, view, b, g)
            values.append(divergence(*pair))
            torch.testing.assert_close(found[b, g, :n], 0.7 * values[-1], atol=TOLERANCE, rtol=1e-4)
    assert record.scalars["opsd/divergence"] == pytest.approx(float(torch.cat(values).mean()), rel=1e-4)
    assert found.requires_grad and record.histograms["opsd/divergence"].numel() == torch.cat(values).numel()


@pytest.mark.parametrize("keep", [False, True])
def test_advantage(rollout, make_scorer, keep):
    advantage, record = torch.randn(rollout.shape) * rollout.mask_BGT, Record()
    found = OPSD(keep_reward=keep).on_advantage(rollout, advantage, make_scorer(), record)
    assert torch.equal(found, advantage) if keep else not found.any() and found.shape == advantage.shape
    assert record.scalars == {"opsd/solution_rate": 0.5, "opsd/unhinted_rate": 0.25}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"coef": 0.0}, r"callbacks.opsd.coef=0.0 must be above 0"),
        ({"template": "Solution:"}, r"template='Solution:' must contain \{solution\}"),
        ({"divergence": partial(jensen_shannon, beta=1.5)}, r"0 < beta < 1, not beta=1.5"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        OPSD(**options)


def test_groups_without_an_advantage_are_trained_on(tmp_path):
    """All answers right: the policy moves nevertheless, with another parent, too; and no old log-probs are scored."""
    ruled = ["reward._target_=fakes.Ruled", "steps=1"]
    for name in ("grpo", "gspo"):
        fit(config(tmp_path / name, *RUN, *ruled, f"algorithm={name}"))
        row = rows(tmp_path / name)[0]
        assert row["reward/zero_variance_rate"] == 1 and row["train/grad_norm"] > 1e-3
        assert row["train/opsd_loss"] == pytest.approx(row["train/loss"]) and row["train/policy_loss"] == 0
        assert row["opsd/solution_rate"] == 1 and row["opsd/unhinted_rate"] == 0


def rows(folder: Path) -> list[dict[str, float]]:
    lines = (folder / "csv" / "metrics.csv").read_text().splitlines()
    names = lines[0].split(",")
    found = [dict(zip(names, line.split(","), strict=True)) for line in lines[1:]]
    return [{key: float(v) for key, v in row.items() if v} for row in found if row.get("train/loss")]


def test_micro_batches_change_no_loss_and_the_reward_can_stay(tmp_path):
    options = [*RUN, "steps=1", "algorithm.mini_batch=4"]
    for size in (1, 4):
        more = ["callbacks.opsd.keep_reward=true", f"algorithm.micro_batch={size}"]
        fit(config(tmp_path / str(size), *options, *more))
    fit(config(tmp_path / "alone", *options))
    one, four, alone = (rows(tmp_path / name)[0] for name in ("1", "4", "alone"))
    for key in ("train/loss", "train/opsd_loss", "train/policy_loss", "train/grad_norm", "opsd/divergence"):
        assert one[key] == pytest.approx(four[key], rel=1e-4, abs=1e-6), key
    assert one["train/opsd_loss"] == pytest.approx(alone["train/opsd_loss"])
    assert one["train/grad_norm"] != pytest.approx(alone["train/grad_norm"], rel=1e-2)


def test_stopping_and_resuming_changes_no_bit(tmp_path):
    """The teacher of a resumed run has the initial weights, not those of the checkpoint."""
    fit(config(tmp_path / "whole", *RUN, "steps=4"))
    fit(config(tmp_path / "a", *RUN, "steps=2"))
    fit(config(tmp_path / "b", *RUN, "steps=4", f"ckpt_path={tmp_path}/a/checkpoints/last.ckpt"))
    assert losses(tmp_path / "a") | losses(tmp_path / "b") == losses(tmp_path / "whole")


def test_the_reference_is_built_where_a_method_needs_it(tmp_path):
    for callbacks, built in (("opsd", True), ("rlsd", False)):
        run = build(config(tmp_path, *RUN, f"callbacks=[{callbacks}]"))
        assert (Weights.REFERENCE in run.module.scorer.models) is built


def test_the_world_and_rows_of_a_file_give_solutions(tmp_path):
    sample = World("val", 4, seed=0)[0]
    assert sample.meta["solution"].endswith(f"\\boxed{{{sample.answer}}}")
    assert sample.meta["solution"].count(" . ") == sample.meta["key_facts"].count("\n") + 1
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"question": "1 + 1?", "answer": 2, "solution": "one and one is 2"}))
    assert Jsonl(path)[0].meta == {"solution": "one and one is 2"}


def test_a_control_token_in_an_answer_cannot_reach_the_teacher(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"question": "1 + 1?", "answer": 2, "solution": "<|image_pad|>"}))
    with pytest.raises(UserError, match=r"solution holds the control token"):
        Jsonl(path)


def test_long_solutions_keep_their_lines(processor):
    encoder = Encoder(processor, TEMPLATE)
    sample = Sample("x", (), "how many?", "2", meta={"solution": "first\nsecond"})
    rollout = rollout_of([sample], [[1]], [["2"]], [[True]])
    line = solution_hints(rollout, "S: {solution}").lines[0][0]
    ids = encoder([sample]).ids[0]
    assert "S: first\nsecond" in processor.tokenizer.decode(encoder.hinted(sample, ids, line))
