"""lmms-eval: its own base class and registry where it is installed, a stub of both where it is not."""

from __future__ import annotations

import abc
import importlib
import importlib.metadata
import importlib.util
import subprocess
import sys
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace

import pytest
from tests.integrations.test_chat import TINY

from mmcredit.data.world.source import World
from mmcredit.rollout.sampling import SamplingLaw

INSTALLED = importlib.util.find_spec("lmms_eval") is not None
MODULE = "mmcredit.integrations.lmms_eval_model"


def stub() -> dict[str, ModuleType]:
    """The parts of lmms-eval 0.7.3 that are used."""

    class Lmms(abc.ABC):  # noqa: B024
        is_simple = True

        def __init__(self) -> None:
            self.task_dict = {}

        generate_until = loglikelihood = generate_until_multi_round = abc.abstractmethod(lambda self, requests: None)

    @dataclass(frozen=True)
    class ModelManifest:
        model_id: str
        chat_class_path: str

    made = {name: ModuleType(name) for name in ("lmms_eval", "lmms_eval.api", "lmms_eval.api.model",
                                                "lmms_eval.models", "lmms_eval.models.registry_v2")}  # fmt: skip
    made["lmms_eval.api.model"].lmms = Lmms
    made["lmms_eval.models.registry_v2"].ModelManifest = ModelManifest
    return made


@pytest.fixture(params=["real", "stub"])
def kit(request, monkeypatch) -> str:
    if request.param == "real" and not INSTALLED:
        pytest.skip("lmms-eval is not installed")
    if request.param == "stub":
        for name, module in stub().items():
            monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    return request.param


def instance(doc: int, settings: dict, messages=None):
    def doc_to_messages(document):
        picture = {"type": "image", "url": document["image"]}
        return [{"role": "user", "content": [picture, {"type": "text", "text": document["question"]}]}]

    return SimpleNamespace(args=("", messages or doc_to_messages, settings, doc, "world", "val"))


def test_generates_for_the_kit(kit):
    made = importlib.import_module(MODULE).LmmsEvalModel(TINY, batch_size="2", max_new_tokens=24, max_batch_size=None)
    base = sys.modules["lmms_eval.api.model"].lmms
    assert isinstance(made, base) and made.is_simple is False
    docs = [{"image": s.images[0], "question": s.question} for s in World("val", 3)]
    made.task_dict = {"world": {"val": docs}}
    greedy, sampled = (
        {"temperature": 0, "until": ["\n\n"]},
        {"do_sample": True, "temperature": 1.0, "max_new_tokens": 16},
    )
    answers = made.generate_until(
        [instance(0, greedy), instance(1, sampled), instance(1, sampled), instance(2, greedy)]
    )
    assert len(answers) == 4 and all(isinstance(a, str) for a in answers)
    assert answers[1] != answers[2]  # copies of a question have draws of their own
    assert made.generate_until([instance(2, greedy)]) == answers[3:]
    for refused in (made.loglikelihood, made.generate_until_multi_round):
        with pytest.raises(NotImplementedError, match="generate_until tasks"):
            refused([])
    with pytest.raises(ValueError, match=r"has no colour"):
        type(made)(TINY, colour="red")


def test_settings_of_tasks(kit):
    law_of = importlib.import_module(MODULE).law_of
    assert law_of({}, 99) == (SamplingLaw(1, 0.0, 1.0, 99), ())
    assert law_of({"temperature": 0.7, "top_p": None, "until": "x"}, 99) == (SamplingLaw(1, 0.7, 1.0, 99), ("x",))
    assert law_of({"temperature": 0.7, "do_sample": False, "top_p": 0.9, "max_new_tokens": 5}, 9)[0] == SamplingLaw(
        1, 0.0, 1.0, 5
    )
    with pytest.raises(ValueError, match="num_beams=3"):
        law_of({"num_beams": 3}, 9)


def test_messages(kit):
    parts_of = importlib.import_module(MODULE).parts_of
    system, user = (
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "why?"}]},
    )
    assert parts_of([system, user], "q") == ("be brief", "why?")
    for bad in ({"role": "assistant", "content": "x"}, {"role": "user", "content": [{"type": "video", "url": "x"}]}):
        with pytest.raises(ValueError, match=r"^q: mmcredit"):
            parts_of([bad], "q")


def test_entry_point_names_the_class(kit):
    from mmcredit.integrations.lmms_eval_entry import manifest

    assert (manifest().model_id, manifest().chat_class_path) == ("mmcredit", f"{MODULE}.LmmsEvalModel")


@pytest.mark.slow
@pytest.mark.skipif(not INSTALLED, reason="lmms-eval is not installed")
def test_the_real_registry_finds_it_by_name():
    entries = importlib.metadata.entry_points(group="lmms_eval.models")
    if "mmcredit" not in entries.names:
        pytest.skip("mmcredit was installed before it had the entry point: pip install -e . again")
    code = "from lmms_eval.models import get_model; print(get_model('mmcredit').__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "LmmsEvalModel"
