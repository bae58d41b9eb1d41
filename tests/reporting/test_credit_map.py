"""From reports to panels: tokens, claims, boxes, and which responses are shown."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from methods import graded

from mmcredit.credit import CreditCallback, Record, advantage_chain
from mmcredit.data.world.source import World
from mmcredit.functional import group_advantage
from mmcredit.module import StepReport
from mmcredit.reporting.boxes import region_boxes, routed_boxes
from mmcredit.reporting.credit_map import END, chain_name, claims, credit_map, pieces, worth_showing
from mmcredit.scoring.regions import Grid, evidence_box, reference_box
from mmcredit.scoring.replace import Evidence, FeatureReplace, Reference
from mmcredit.scoring.views import View
from mmcredit.services.oracle import contradicts


class Halve(CreditCallback):
    paper = "https://example.org"

    def on_advantage(self, rollout, advantage_BGT, scorer, record):
        record.tokens("halve/weight", 0.5 * rollout.mask_BGT)
        return 0.5 * advantage_BGT


@pytest.fixture
def report(make_rollout, make_scorer) -> StepReport:
    scorer = make_scorer()
    correct = torch.tensor([[True, True, True], [True, False, True], [False, True, False], [False, False, False]])
    rollout, record = graded(make_rollout(), correct, scorer), Record(per_token={})
    advantage = advantage_chain([Halve()], rollout, group_advantage(rollout.reward_BG), scorer, record)
    record.responses("reward/total", rollout.reward_BG)
    return StepReport(rollout, advantage, record)


def test_a_map_holds_every_token_with_its_credit_before_and_after(report):
    shown = credit_map("title", {"Halve": report}, [1, 2], 2, [], contradicts)
    assert [panel.id for panel in shown.panels] == ["two", "text"] and shown.chains == ("Halve",)
    for panel, b in zip(shown.panels, (1, 2), strict=True):
        assert len(panel.rows) == 2
        for g, row in enumerate(panel.rows):
            (column,), length = row.columns, int(report.rollout.mask_BGT[b, g].sum())
            assert len(column.tokens) == length and dict(column.numbers) == {"reward/total": float(row.correct)}
            parent = group_advantage(report.rollout.reward_BG)[b, g].item()
            for token in column.tokens:
                assert token.credit == pytest.approx(0.5 * parent)
                assert dict(token.numbers) == {
                    "credit/parent": pytest.approx(parent),
                    "halve/weight": 0.5,
                    "credit/Halve": pytest.approx(parent / 2),
                }
    assert shown.panels[0].scale == pytest.approx(report.advantage_BGT[1, :2].abs().max())
    assert shown.panels[1].pictures == () and shown.panels[1].boxes == ()


def test_nothing_is_kept_unless_asked_for():
    record = Record()
    record.tokens("a/b", torch.ones(1, 1, 1))
    assert record.per_token is None


def test_prompts_to_which_most_chains_give_credit_come_first(report):
    assert worth_showing([report]) == [1, 2, 0, 3]
    other = replace(report, advantage_BGT=torch.zeros_like(report.advantage_BGT))
    other.advantage_BGT[[0, 2]] = 1.0
    assert worth_showing([report, other]) == [2, 0, 1, 3]
    assert chain_name([Halve(), Halve()]) == "Halve > Halve" and chain_name([]) == "no method"


def test_responses_of_other_texts_come_before_repetitions(report):
    responses = report.rollout.responses
    texts = (responses.texts[0], (responses.texts[1][0],) * 2 + (responses.texts[1][2],), *responses.texts[2:])
    spans = (responses.spans[0], (responses.spans[1][0],) * 2 + (responses.spans[1][2],), *responses.spans[2:])
    repeated = replace(report, rollout=replace(report.rollout, responses=replace(responses, texts=texts, spans=spans)))
    (panel,) = credit_map("", {"a": repeated}, [1], 2, [], contradicts).panels
    assert [row.correct for row in panel.rows] == [True, True]  # the first and the third, not the second


def test_pieces_cover_the_text_once():
    text = "a😀b"
    assert pieces(text, [(0, 1), (1, 2), (1, 2), (2, 3), (3, 3)]) == ["a", "😀", END, "b", END]
    assert pieces("x\n\u202ey", [(0, 2), (2, 4), (4, 4)]) == ["x⏎\n", "⟨U+202E⟩y", END]


def test_claims_are_runs_of_claimed_tokens_and_judged_by_the_oracle(report):
    sample = World("val", 8, seed=5)[0]
    first = sample.objects[0]
    true, false = f"{first.color} {first.shape}", "no " + f"{first.color} {first.shape}"
    text = f"{true} . {false} ."
    spans = ((0, len(true)), (len(true), len(true) + 3), (len(true) + 3, len(text) - 2), (len(text) - 2, len(text)))
    rollout = report.rollout
    responses = replace(rollout.responses, texts=((text,) * 3,) * 4, spans=((spans,) * 3,) * 4)
    prompts = replace(rollout.prompts, samples=(sample, *rollout.prompts.samples[1:]))
    flags = torch.zeros(4, 3, rollout.shape[2])
    flags[0, 0, [0, 2]] = 1
    claimed = StepReport(replace(rollout, responses=responses, prompts=prompts), report.advantage_BGT,
                         Record(per_token={"pacg/claim": flags}))  # fmt: skip
    assert claims(claimed, 0, 0) == {(0, 1): true, (2, 3): false} and claims(claimed, 0, 1) == {}
    (panel,) = credit_map("", {"PACG": claimed}, [0], 1, [], contradicts).panels
    assert [token.claim for token in panel.rows[0].columns[0].tokens] == ["supported", "", "contradicted", ""]
    routed = [mapped for mapped in panel.boxes if mapped.kind == "routed"]
    fitting = [o for o in sample.objects if (o.color, o.shape) == (first.color, first.shape)]
    assert [mapped.box.centre for mapped in routed] == [o.box.centre for o in fitting]
    assert {mapped.label for mapped in routed} == {f"routed: {true}"}


def test_boxes_are_those_that_the_views_replace():
    sample = World("val", 8, seed=5)[1]
    views = [View(image=FeatureReplace(region)) for region in (Evidence(), Reference(0), Reference(1))]
    found = region_boxes(sample, [*views, *views, View()])
    grid = Grid(16, 16, 2, *sample.images[0].size)
    assert [(m.kind, m.box) for m in found] == [
        ("evidence", evidence_box(sample)[0]),
        ("reference", reference_box(sample, grid, 0)),
        ("reference", reference_box(sample, grid, 1)),
    ]
    unboxed = replace(sample, proposal_bbox=None)
    assert [m.label for m in region_boxes(unboxed, views[:1])] == ["evidence (centred)"]
    assert region_boxes(unboxed, []) == [] == region_boxes(replace(sample, images=()), views)
    assert routed_boxes(replace(sample, objects=()), ["red circle"]) == []
