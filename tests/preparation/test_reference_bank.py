"""The builder of reference banks: complete, or refused with the names of what is missing."""

from __future__ import annotations

import json

import pytest
from tests.diagnostics.conftest import build_bank

from mmcredit.diagnostics.bank import load
from mmcredit.launch import user_error
from mmcredit.services.claim_status import OracleStatus, StatusRequest
from mmcredit.types import UserError

FEW = ["job.questions=4", "rollout.group=2", "job.batch=2", "rollout.max_new_tokens=24"]
BLIND = ["data.val.val._target_=fakes.PartlyBlind", "data.val.val.size=4", "+data.val.val.text_only=[1,3]"]


def refused(folder, *overrides):
    with pytest.raises(Exception) as caught:
        build_bank(folder, *FEW, *overrides)
    mistake = user_error(caught.value)
    assert isinstance(mistake, UserError) and "\n" not in str(mistake), caught.value
    assert not (folder / "bank.json").exists()
    return str(mistake)


def test_questions_without_a_picture_are_named(tmp_path):
    found = refused(tmp_path, *BLIND)
    assert "is incomplete and was not sealed: 2 without a picture: world-2-val-" in found
    assert "world-2-val-1" in found and "world-2-val-3" in found and "world-2-val-0" not in found


def test_too_few_questions_or_responses_are_refused(tmp_path):
    assert "job.questions=4: job.part=val has 3" in refused(tmp_path / "a", "data.val.val.size=3")
    assert "job.part=test does not exist; use one of train, val, counter_prior" in refused(
        tmp_path / "b", "job.part=test"
    )
    given = tmp_path / "given.jsonl"
    rows = [
        {"id": f"world-2-val-{i}", "responses": ["red circle top left . \\boxed{1}"] * (1 + i % 2)} for i in range(4)
    ]
    given.write_text("".join(json.dumps(row) + "\n" for row in rows[:3]))
    found = refused(tmp_path / "c", "data.val.val.size=4", f"job.responses={given}")
    assert "3 without 2 responses: " in found and "world-2-val-1" not in found
    assert "nowhere.jsonl does not exist" in refused(tmp_path / "d", f"job.responses={tmp_path / 'nowhere.jsonl'}")


def test_given_responses_are_used_as_they_are(tmp_path):
    given = tmp_path / "given.jsonl"
    texts = ["red circle top left . \\boxed{1}", "no blue square . \\boxed{2}", "ignored"]
    rows = [{"id": f"world-2-val-{i}", "responses": texts} for i in range(4)]
    given.write_text("".join(json.dumps(row) + "\n" for row in rows))
    counts = build_bank(tmp_path / "bank", *FEW, "data.val.val.size=4", f"job.responses={given}")
    bank = load(tmp_path / "bank")
    assert counts["responses"] == 8 and all(
        tuple(r.text for r in group) == tuple(texts[:2]) for group in bank.responses
    )
    assert [response.answer for response in bank.responses[0]] == ["1", "2"]
    assert [c.span.text for c in bank.responses[0][0].claims] == ["red circle top left"]


def test_claims_that_the_router_did_not_give_are_named_and_asked_for_again(tmp_path):
    found = refused(tmp_path, "router.failure_rate=1.0")
    assert "4 without claims (injected): world-2-val-" in found
    assert build_bank(tmp_path, *FEW)["questions"] == 4  # the responses were kept
    assert len(load(tmp_path)) == 4


def test_labels_from_a_file_or_a_refusal_that_says_how(tmp_path):
    (tmp_path / "none.jsonl").write_text("")
    found = refused(tmp_path, "labels=file", f"labels.path={tmp_path / 'none.jsonl'}")
    assert "without a label of each claim (unlabelled)" in found and "unlabelled.jsonl, then labels=file" in found
    rows = [json.loads(line) for line in (tmp_path / "unlabelled.jsonl").read_text().splitlines()]
    assert rows and all(row["status"] is None and row["claim"] in row["response"] for row in rows)
    done = tmp_path / "done.jsonl"
    done.write_text("".join(json.dumps(row | {"status": "unsupported"}) + "\n" for row in rows))
    counts = build_bank(tmp_path, *FEW, "labels=file", f"labels.path={done}")
    assert counts["unsupported"] == counts["direct_claims"] > 0
    bank = load(tmp_path)
    assert {c.status for group in bank.responses for r in group for c in r.direct()} == {"unsupported"}


def test_labels_are_the_oracles_and_the_same_again(tmp_path):
    first = build_bank(tmp_path / "a", *FEW)
    assert first["hash"] == build_bank(tmp_path / "b", *FEW, "job.batch=3")["hash"]
    bank, oracle = load(tmp_path / "a"), OracleStatus()
    for sample, group in zip(bank.samples, bank.responses, strict=True):
        for response in group:
            request = StatusRequest(sample, response.text, tuple(c.where for c in response.claims))
            assert oracle.answer(request).statuses == tuple(c.status for c in response.claims)
    assert "was begun with other settings (questions)" in str(_error(tmp_path / "a", "job.questions=3"))


def _error(folder, *overrides):
    with pytest.raises(Exception) as caught:
        build_bank(folder, *FEW, *overrides)
    return user_error(caught.value)


def test_responses_without_any_claim_make_no_bank(tmp_path):
    given = tmp_path / "given.jsonl"
    given.write_text(
        "".join(json.dumps({"id": f"world-2-val-{i}", "responses": ["\\boxed{1}"] * 2}) + "\n" for i in range(4))
    )
    found = refused(tmp_path / "bank", "data.val.val.size=4", f"job.responses={given}")
    assert "4 without a direct claim in any response" in found
