"""A frozen bank: the same tokens every time, or a refusal that names the file."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import partial

import pytest
from ranks import on_two_ranks

from mmcredit.data.world.source import World
from mmcredit.diagnostics.bank import load
from mmcredit.diagnostics.spd import SPD
from mmcredit.types import UserError


def test_what_was_sampled_comes_back(think_folder, think_bank, make_setting, shipped):
    setting = make_setting(think_bank, base=shipped)
    rollout = setting.frozen(shipped, 2, 9)
    rows = [json.loads(line) for line in (think_folder / "sampled.jsonl").read_text().splitlines()][2:9]
    world = World("val", 512, seed=2)
    for b, row in enumerate(rows):
        original = world[int(row["id"].rpartition("-")[2])]
        kept = rollout.prompts.samples[b]
        assert kept == replace(original, images=kept.images, meta={})
        assert kept.images[0].tobytes() == original.images[0].tobytes()
        for g, response in enumerate(row["responses"]):
            ids = rollout.responses.ids_BGT[b, g][rollout.mask_BGT[b, g]].tolist()
            assert ids == response["ids"] and rollout.responses.texts[b][g] == response["text"]
            marked = rollout.grades.answer_BGT[b, g].nonzero().flatten().tolist()
            assert marked == response["answer_tokens"] and response["answer"] in response["text"]
    graded = setting.grade(rollout.prompts, rollout.responses)
    assert (graded.correct_BG == rollout.grades.correct_BG).all() and graded.answers == rollout.grades.answers
    assert (graded.answer_BGT == rollout.grades.answer_BGT).all() and rollout.start == 2


def test_changed_and_missing_files_are_named(think_folder, tmp_path):
    with pytest.raises(UserError, match=r"bank=None is no reference bank; python -m mmcredit.prepare reference_bank"):
        load(None)
    whole = load(think_folder).hash
    picture = "images/000003_0.png"
    for change, wanted in (
        (lambda f: (f / picture).unlink(), rf"lacks {picture}"),
        (lambda f: shutil.copy(f / "images/000001_0.png", f / picture), rf"was changed since it was sealed: {picture}"),
        (lambda f: (f / "responses.jsonl").write_text("\n"), r"was changed .*: responses\.jsonl"),
        (lambda f: (f / "bank.json").write_text((f / "bank.json").read_text() + " "), None),
        (lambda f: (f / "bank.json").write_text((f / "bank.json").read_text().replace('"seed": 0', '"seed": 1')),
         r"was changed .*: bank\.json"),
        (lambda f: (f / "bank.json").write_text('{"files": {'), r"bank\.json is damaged: build the bank again"),
    ):  # fmt: skip
        folder = tmp_path / "copy"
        shutil.copytree(think_folder, folder)
        change(folder)
        if wanted is None:
            assert load(folder).hash == whole
        else:
            with pytest.raises(UserError, match=wanted):
                load(folder)
        shutil.rmtree(folder)


def test_another_tokenizer_is_refused(think_bank, make_setting, shipped, processor):
    setting = make_setting(think_bank, base=shipped)
    setting.encoder.processor = processor
    with pytest.raises(UserError, match="the bank's tokens are not those of this model's tokenizer"):
        setting.frozen(shipped, 0, 1)


def scores(folder, make_setting, shipped):
    return SPD(min_residual=4, seeds=1).score(make_setting(load(folder), batch=3, base=shipped), shipped)


def test_a_bank_is_scored_identically_twice_and_on_two_processes(think_folder, make_setting, shipped, tmp_path):
    once = scores(think_folder, make_setting, shipped)
    assert len(once) > 40 and once == scores(think_folder, make_setting, shipped)
    for found, shares in on_two_ranks(partial(ranked, think_folder), tmp_path / "two"):
        assert found == once and shares == [0, 1, 0, 1, 0, 1]  # six batches, each scored by one of them


def ranked(folder, rank):
    """On a process of its own, from files alone."""
    from functools import partial as bound

    from tests.diagnostics.conftest import SHIPPED, _same

    from mmcredit.data.encode import Encoder
    from mmcredit.diagnostics.setting import Setting
    from mmcredit.evaluation.statistics import Bootstrap
    from mmcredit.models.load import load_policy
    from mmcredit.models.processor import load_processor

    bank, model = load(folder), load_policy(SHIPPED).eval()
    encoder = Encoder(load_processor(SHIPPED), bank.template)
    setting = Setting(bank, encoder, {"base": bound(_same, model)}, None, None, Bootstrap(5), batch=3)
    return SPD(min_residual=4, seeds=1).score(setting, model), setting.over(lambda start, stop: [rank])
