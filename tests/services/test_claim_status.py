"""Labels of claims: the oracle's, a file's, a chat model's."""

from __future__ import annotations

import json

import pytest

from mmcredit.data.world.source import World
from mmcredit.services.claim_status import FileStatus, Labelled, OracleStatus, StatusRequest
from mmcredit.services.openai_status import Checked, OpenAIStatus
from mmcredit.types import Sample, SceneObject, UserError

SAMPLE = World("val", 4, seed=1)[0]


def said(thing: SceneObject, where: str) -> str:
    return f"{thing.color} {thing.shape} {where}"


def test_the_oracle_knows_true_from_false():
    thing = SAMPLE.objects[0]
    x, y = thing.box.centre
    corner = f"{'top' if y < 64 else 'bottom'} {'left' if x < 64 else 'right'}"
    wrong = f"{'bottom' if y < 64 else 'top'} {'left' if x < 64 else 'right'}"
    true, false = said(thing, corner), f"{'blue' if thing.color != 'blue' else 'red'} {thing.shape} {wrong}"
    text = f"{true} . {false} . \\boxed{{1}}"
    claims = (0, len(true)), (len(true) + 3, len(true) + 3 + len(false)), (1, 2)
    found = OracleStatus().submit([StatusRequest(SAMPLE, text, claims)]).result()[0]
    held = any(o.color in false and o.shape in false for o in SAMPLE.objects)
    assert found.statuses[0] == "supported" and found.statuses[2] is None
    assert held or found.statuses[1] == "contradicted"
    with pytest.raises(UserError, match="labels=oracle knows only the embedded world"):
        OracleStatus().answer(StatusRequest(Sample("x", (), "q", "a"), "red circle", ()))


def test_a_files_labels(tmp_path):
    path = tmp_path / "labels.jsonl"
    row = {"id": SAMPLE.id, "response": "a b", "start": 0, "end": 1, "status": "unsupported"}
    path.write_text(json.dumps(row) + "\n")
    request = StatusRequest(SAMPLE, "a b", ((0, 1), (2, 3)))
    assert FileStatus(path).answer(request) == Labelled(("unsupported", None))
    assert FileStatus(path).answer(StatusRequest(SAMPLE, "other", ((0, 1),))) == Labelled((None,))
    for change, wanted in (
        ({"status": "true"}, "status 'true' must be one of supported"),
        ({"end": "x"}, "are needed"),
    ):
        path.write_text(json.dumps(row | change))
        with pytest.raises(UserError, match=f"labels.jsonl:1: .*{wanted}"):
            FileStatus(path)
    for given in (None, tmp_path / "nowhere"):
        with pytest.raises(UserError, match=r"labels.path=.* must be a file"):
            FileStatus(given)


def test_a_chat_model_is_shown_picture_and_claims():
    class Chat:
        name, counters = "labels=openai", {}

    judge = OpenAIStatus(Chat())
    request = StatusRequest(SAMPLE, "red circle . blue bar", ((0, 10), (13, 21)))
    (prompt,) = judge.prompts(request)
    assert '"1": "red circle"' in prompt.user and '"2": "blue bar"' in prompt.user and len(prompt.pictures) == 1
    assert judge.answer(request, [Checked(("supported", "contradicted"))]).statuses == ("supported", "contradicted")
    assert judge.answer(request, [Checked(("supported",))]) == Labelled(failure="wrong_count")
    reply = judge.task.parse('{"statuses": ["supported", "unsupported"], "more": 1}')
    assert reply == Checked(("supported", "unsupported"))
    with pytest.raises(ValueError):
        judge.task.parse('{"statuses": ["maybe"]}')
