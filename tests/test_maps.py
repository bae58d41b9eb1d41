"""Credit maps of several chains on one rollout, from the command line's words to the page."""

from __future__ import annotations

import html
import re
import subprocess
import sys

import hydra
import pytest
import torch
from methods import NAMES

from mmcredit.build import build
from mmcredit.maps import credited, maps, sampled, with_callbacks
from mmcredit.types import UserError

SMALL = ["data.batch_size=4", "rollout.group=4", "template=think"]
SMALL += ["rollout.max_new_tokens=16", "++callbacks.pacg.min_residual=1"]


def config(folder, *overrides: str):
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        return hydra.compose("maps", overrides=[f"run_dir={folder}", *SMALL, *with_callbacks(overrides)])


def test_methods_name_the_callbacks_that_are_composed():
    assert with_callbacks(["methods=[[],[vppo],[vppo,pacg]]", "seed=1"])[-1] == "callbacks=[vppo,pacg]"
    assert with_callbacks(["seed=1"]) == ["seed=1"]


@pytest.mark.parametrize("wrong", ["methods=[vppo]", "methods=vppo", "methods=[[vppo]", "methods=", "methods=[[[a]]]"])
def test_methods_that_are_no_list_of_lists(wrong):
    with pytest.raises(UserError, match="a list of lists of methods is needed"):
        with_callbacks([wrong])


def test_callbacks_beside_methods_are_refused():
    with pytest.raises(UserError, match="leave callbacks= out"):
        with_callbacks(["methods=[[]]", "callbacks=[ced]"])


def test_models_of_a_run_over_several_ranks_are_whole_here(tmp_path):
    options = ["methods=[[],[pace]]", "data.batch_size=2", "rollout.max_new_tokens=4", "trainer=fsdp"]
    assert maps(config(tmp_path, *options)).exists()


def test_every_chain_sees_the_same_responses_and_the_page_shows_each(tmp_path):
    path = maps(config(tmp_path, "methods=[[],[vppo],[vppo,pacg]]", "samples=2", "responses=2"))
    page = path.read_text("utf-8")
    assert path == tmp_path / "credit_map.html" and len(re.findall("<section", page)) == 2
    tokens = [re.findall(r"<i class=\"[^\"]*\" data-t=\"([^\"]*)\">([^<]*)</i>", p) for p in page.split("<p ")[1:]]
    assert len(tokens) == 2 * 2 * 3
    for plain, vppo, both in zip(tokens[::3], tokens[1::3], tokens[2::3], strict=True):
        assert [text for _, text in plain] == [text for _, text in vppo] == [text for _, text in both]
        for (a, _), (b, _), (c, _) in zip(plain, vppo, both, strict=True):
            first, second, third = (
                dict(line.rsplit(" ", 1) for line in html.unescape(t).split("\n")) for t in (a, b, c)
            )
            assert first["credit/parent"] == second["credit/parent"] == third["credit/parent"]
            assert second["credit/VPPO"] == third["credit/VPPO"] and "credit/PACG" in third
            product = float(second["credit/parent"]) * float(second["vppo/weight"])
            assert float(second["credit/VPPO"]) == pytest.approx(product, rel=2e-2, abs=2e-3)


def test_without_methods_the_configurations_own_chain_is_compared_with_none(tmp_path):
    page = maps(config(tmp_path, "samples=1", "responses=1")).read_text("utf-8")
    assert re.findall(r"class=\"column\"><b>([^<]*)<", page) == ["no method", "CED"]
    assert page.count('class="reference"') >= 1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("set=x", "use one of train, val, counter_prior"),
        ("samples=0", "samples=0"),
        ("start=100000", "train has 100000 samples"),
    ],
)
def test_mistakes(tmp_path, wrong, words):
    with pytest.raises(UserError, match=words):
        maps(config(tmp_path, "methods=[[]]", wrong))


@pytest.mark.slow
def test_every_method_gives_numbers_of_the_rollouts_shape(tmp_path):
    cfg = config(tmp_path, f"methods=[[{'],['.join(NAMES)}]]", "++callbacks.opsd.keep_reward=true")
    for part in cfg.callbacks.values():
        if "refresh_every" in part:
            part.refresh_every = 1
    run = build(cfg)
    chain = run.module.chain
    rollout = sampled(run.module, run.data.first_prompts(4))
    for method in chain:
        report = credited(run.module, [method], rollout)
        for key, values in report.record.per_token.items():
            assert values.shape == rollout.shape and torch.isfinite(values).all(), key


def test_the_command_line_reports_and_exits_with_2(tmp_path):
    command = [sys.executable, "-m", "mmcredit.report", "maps", "methods=[[nothing]]"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2 and done.stderr.startswith("error: there is no callbacks/nothing")
