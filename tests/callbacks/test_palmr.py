"""PaLMR against a literal reference, S_vis counted by hand, and its promises."""

from __future__ import annotations

import logging

import hydra
import pytest
import torch
from hydra.utils import instantiate
from judged_case import NOTES, PICTURE, TableJudge, make_rollout, places, random_case

from mmcredit.callbacks.palmr import PaLMR, bonus, gate, mix
from mmcredit.credit import Record
from mmcredit.services.judge import Verdict
from mmcredit.services.oracle_judge import OracleJudge
from mmcredit.types import Box, Sample, SceneObject, UserError

FORMS = {"gate": gate, "bonus": bonus, "mix": mix}
VERDICTS = [Verdict(True), Verdict(False, ("wrong colour",)), Verdict(), Verdict(failure="timeout")]


def literal(form: str, vis: int, ans: int, fmt: int, alpha: float) -> float:
    """METHODS section 7."""
    if form == "gate":
        return vis * (alpha * ans + (1 - alpha) * fmt)
    if form == "bonus":
        return alpha * ans + (1 - alpha) * fmt + (0.5 if ans == 1 and vis == 1 else 0.0)
    return 0.2 * vis + (alpha - 0.2) * ans + (1 - alpha) * fmt


@pytest.mark.parametrize("alpha", [0.9, 0.6])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(10))
def test_reward_against_a_literal_reference(form, alpha, seed):
    rng, rollout = random_case(seed)
    verdicts = {text: rng.choice(VERDICTS) for group in rollout.responses.texts for text in group}
    judge, record = TableJudge(verdicts), Record()
    reward = PaLMR(judge, FORMS[form], alpha).on_reward(rollout, None, record)
    asked = {r.response for r in judge.asked[0]} if judge.asked else set()
    for b, g in places(rollout):
        text, sample = rollout.responses.texts[b][g], rollout.prompts.samples[b]
        ans, fmt = int(rollout.grades.correct_BG[b, g]), int(rollout.grades.format_BG[b, g])
        judged = bool(sample.meta) and not (ans == 0 and fmt == 0)
        assert (text in asked) is judged
        vis = int(judged and verdicts[text].preferred is True)
        assert float(reward[b, g]) == pytest.approx(literal(form, vis, ans, fmt, alpha), abs=1e-6)
    found = [verdicts[text] for text in asked]
    if found:
        assert record.scalars["palmr/tie_rate"] == pytest.approx(sum(v is VERDICTS[2] for v in found) / len(found))
        failed = sum(v is VERDICTS[3] for v in found)
        assert record.scalars["palmr/failed_rate"] == pytest.approx(failed / len(found))
        assert record.scalars.get("palmr/failed_timeout", 0) == failed
        assert len(record.histograms["palmr/errors"]) == len(found) - failed


def test_mix_has_the_papers_weights():
    one, zero = torch.ones(1), torch.zeros(1)
    assert [float(mix(*x, 0.9)) for x in ((one, zero, zero), (zero, one, zero), (zero, zero, one))] == pytest.approx(
        [0.2, 0.7, 0.1]
    )


def thing(color: str, shape: str, x: int, y: int) -> SceneObject:
    return SceneObject(shape, color, "small", Box(x, y, 20, 20))


RED, BLUE, GREEN = thing("red", "circle", 4, 4), thing("blue", "square", 70, 4), thing("green", "triangle", 4, 70)
HAND = [  # objects, response, reference -> S_vis, counted by hand
    ((RED, BLUE), "red circle top left . \\boxed{1}", "\\boxed{1}", 1),  # 0 wrong, 1 seen > 0 wrong, 0 seen
    ((RED, BLUE), "red circle top right . \\boxed{1}", "\\boxed{1}", 0),  # 1 wrong
    ((RED, BLUE), "\\boxed{1}", "\\boxed{1}", 0),  # tie
    ((RED, BLUE), "red circle top left . \\boxed{9}", "blue square top left . \\boxed{1}", 1),  # the answer is nothing
    ((RED, BLUE), "red circle top left . red circle top left . \\boxed{2}", "red circle top left . \\boxed{2}", 0),
    ((RED, BLUE, GREEN), "red circle top left . blue square top right . \\boxed{2}", "green triangle . \\boxed{2}", 1),
    ((RED, BLUE, GREEN), "no red square . no red square . \\boxed{no}", "no red square . \\boxed{no}", 0),  # said twice
    ((RED, BLUE, GREEN), "no red circle . \\boxed{no}", "blue circle top left . \\boxed{no}", 0),  # 1 wrong each: tie
    ((GREEN,), "green triangle bottom left . \\boxed{green}", "red triangle . blue triangle . \\boxed{green}", 1),
    ((GREEN,), "Evidence: green triangle\nFinal answer: green", "\\boxed{green}", 0),  # a focus is no visual claim
]


def test_s_vis_of_the_oracle_equals_a_hand_count_on_ten_samples():
    samples = [
        Sample(str(i), (PICTURE,), "q", "a", objects=objects, meta=NOTES | {"reference": reference})
        for i, (objects, _, reference, _) in enumerate(HAND)
    ]
    rollout = make_rollout(samples, [[row[1]] for row in HAND], [[True]] * 10, [[True]] * 10)
    method, record = PaLMR(OracleJudge()), Record()
    method.on_rollout(rollout, record)
    reward = method.on_reward(rollout, None, record)
    assert record.per_response["palmr/s_vis"].flatten().tolist() == [row[3] for row in HAND]
    assert reward.flatten().tolist() == pytest.approx([row[3] for row in HAND])
    assert method.judge.service.counters["requests"] == 10 and method.judge.service.counters["ties"] == 4


def test_the_judge_is_asked_once_right_after_sampling():
    _, rollout = random_case(3)
    judge = TableJudge(dict.fromkeys((text for group in rollout.responses.texts for text in group), Verdict(True)))
    method = PaLMR(judge)
    method.on_rollout(rollout, Record())
    assert len(judge.asked) == 1 and judge.asked[0]
    method.on_reward(rollout.select(slice(1, None)), None, Record())  # a prompt was dropped in between
    assert len(judge.asked) == 1


def test_samples_without_a_reference_count_as_not_preferred_and_are_named_once(caplog):
    bare = [Sample("bare", (PICTURE,), "q", "a"), Sample("half", (PICTURE,), "q", "a", meta={"reference": "x"})]
    rollout = make_rollout(bare, [["a", "b"]] * 2, [[True, False]] * 2, [[True, True]] * 2)
    method, record, judge = PaLMR(TableJudge({})), Record(), TableJudge({})
    with caplog.at_level(logging.WARNING):
        rewards = [method.on_reward(rollout, None, record) for _ in range(2)]
    assert not torch.stack(rewards).any() and not judge.asked
    assert caplog.text.count("2 of 2 samples of this step (e.g. bare)") == 1
    assert record.scalars["palmr/no_reference_rate"] == 1 and record.scalars["palmr/judged_rate"] == 0


def test_a_wrong_alpha_is_named():
    with pytest.raises(UserError, match=r"callbacks.palmr.alpha=1.5 must lie in 0..1"):
        PaLMR(TableJudge({}), alpha=1.5)


def test_the_form_is_chosen_in_the_configuration():
    path = "callbacks.palmr.form.path=mmcredit.callbacks.palmr.bonus"
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        config = hydra.compose("fit", overrides=["experiment=world_palmr", path, "judge.failure_rate=.25", "run_dir=."])
    method = instantiate(config.callbacks.palmr)
    assert method.form is bonus and method.judge.service.failure_rate == 0.25
