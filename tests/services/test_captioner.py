"""The captioner behind a server, and the embedded world's."""

from __future__ import annotations

import json

import pytest
from stub_server import said, serving

from mmcredit.data.world.source import World
from mmcredit.services.captioner import Description, SampleRequest
from mmcredit.services.chat import ChatService
from mmcredit.services.judge import Score
from mmcredit.services.openai_captioner import OpenAICaptioner, OpenAIRelevance
from mmcredit.services.oracle_captioner import OracleCaptioner, OracleRelevance
from mmcredit.types import Sample

WORLD = World("val", 3)
REQUESTS = [SampleRequest(WORLD[i]) for i in range(3)]
CAPTION = {"objects": ["a red circle", "a box"], "relations": [], "attributes": ["it is small"], "key_facts": ["red"]}


def chat(url: str) -> ChatService:
    return ChatService("captioner=openai", "stub", url, request_seconds=2.0, step_seconds=5.0, retries=0)


def test_the_description_has_objects_relations_attributes_and_key_facts():
    with serving([said(json.dumps(CAPTION))]) as stub:
        found = OpenAICaptioner(chat(stub.url)).submit(REQUESTS).result()
    assert found == [Description("Objects: a red circle; a box.\nAttributes: it is small.", ("red",))] * 3
    kinds = [part["type"] for part in stub.bodies[0]["messages"][1]["content"]]
    assert kinds == ["image_url", "text"] and WORLD[0].answer not in json.loads(
        stub.bodies[0]["messages"][1]["content"][1]["text"].partition("To judge:\n")[2]
    )


@pytest.mark.parametrize(
    ("reply", "kind"),
    [("no json", "invalid_json"), (json.dumps(CAPTION | {"objects": []}), "invalid_schema"), ("{}", "invalid_schema")],
)
def test_an_invalid_description_is_a_failure(reply, kind):
    with serving([said(reply)]) as stub:
        assert OpenAICaptioner(chat(stub.url)).submit(REQUESTS[:1]).result() == [Description(failure=kind)]


@pytest.mark.parametrize(
    ("reply", "score"), [(0.9, Score(0.9)), (1, Score(1.0)), (1.1, Score(failure="invalid_schema"))]
)
def test_relevance(reply, score):
    with serving([said(json.dumps({"relevance": reply}))]) as stub:
        assert OpenAIRelevance(chat(stub.url)).submit(REQUESTS[:1]).result() == [score]


def test_the_worlds_notes():
    found = OracleCaptioner().submit(REQUESTS).result()
    assert [d.text for d in found] == [r.sample.meta["pseudo_ground_truth"] for r in REQUESTS]
    assert all(d.key_facts and d.failure is None for d in found)
    assert OracleRelevance().submit(REQUESTS).result() == [Score(1.0)] * 3
    other = SampleRequest(Sample("s", WORLD[0].images, "q", "a"))
    assert OracleCaptioner().submit([other]).result() == [Description(failure="unknown_scene")]
    assert OracleRelevance().submit([other]).result() == [Score(failure="unknown_scene")]
    assert OracleRelevance().submit([SampleRequest(Sample("s", (), "q", "a"))]).result() == [Score(0.0)]
