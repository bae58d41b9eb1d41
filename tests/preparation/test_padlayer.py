"""The whole pipeline on twelve samples of the embedded world: killed, resumed, reported, trained on, refreshed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import hydra
import pytest
from omegaconf import DictConfig
from tests.test_fit import config

from mmcredit.data.sources.jsonl import Jsonl
from mmcredit.data.world.source import World
from mmcredit.fit import fit
from mmcredit.launch import user_error
from mmcredit.preparation import padlayer, rules
from mmcredit.preparation.files import read_rows, write_rows
from mmcredit.prepare import prepare
from mmcredit.types import UserError

SMALL = ["job=padlayer", "job.limits.candidates=12", "job.batch=5", "rollout.max_new_tokens=32"]


def job(out: Path, *overrides: str) -> DictConfig:
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        return hydra.compose("prepare", overrides=[*SMALL, f"run_dir={out}", *overrides])


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Path, dict]:
    out = tmp_path_factory.mktemp("whole")
    return out, prepare(job(out))


def refused(cfg: DictConfig) -> str:
    """The one line with which a job ends."""
    with pytest.raises(Exception) as caught:
        prepare(cfg)
    mistake = user_error(caught.value)
    assert isinstance(mistake, UserError) and "\n" not in str(mistake), caught.value
    return str(mistake)


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_report_and_table_count_the_files(whole, capsys):
    out, report = whole
    assert json.loads((out / "report.json").read_text()) == report
    rollouts = read_rows(out / "rollouts.jsonl")
    right = [sum(row["correct"]) for row in rollouts]
    assert report["candidates"] == len(rollouts) == 12
    assert report["learnability"] == {f"{n}/8": right.count(n) for n in range(9)}
    kept = [
        row["id"]
        for row, n in zip(rollouts, right, strict=True)
        if 1 <= n <= 7 and any(c and f for c, f in zip(row["correct"], row["format"], strict=True))
    ]
    train = read_rows(out / "train.jsonl")
    assert [row["id"] for row in train] == kept and report["kept"] == len(kept) > 3
    assert report["kept_share"] == len(kept) / 12
    named = {part["stage"]: part for part in report["stages"]}
    assert list(named) == ["relevance", "learnability", "captions"]
    dropped = {"too_easy": right.count(8), "too_hard": right.count(0)}
    assert named["learnability"]["dropped"] == {why: n for why, n in dropped.items() if n}
    references = read_rows(out / "references.jsonl")
    assert report["references"]["duels"] == sum(row["candidates"] - 1 for row in references)
    prepare(job(out))  # nothing is left to do
    shown = capsys.readouterr().out
    assert f"kept {len(kept)} of 12 samples" in shown and "right responses" in shown and "rollouts:" not in shown


def test_references_are_right_well_formed_and_no_other_candidate_is_more_faithful(whole):
    out, _ = whole
    samples, rollouts = Jsonl(out / "train.jsonl"), {row["id"]: row for row in read_rows(out / "rollouts.jsonl")}
    for i in range(len(samples)):
        sample, row = samples[i], rollouts[samples[i].id]
        place = row["responses"].index(sample.meta["reference"])
        assert row["correct"][place] and row["format"][place]


def test_the_written_samples_are_those_of_the_source(whole):
    out, _ = whole
    world = World("train", 100_000)
    samples = Jsonl(out / "train.jsonl")
    for i in range(len(samples)):
        found = samples[i]
        true = world[int(found.id.rpartition("-")[2])]
        assert (found.id, found.question, found.answer, found.family) == (
            true.id, true.question, true.answer, true.family,
        )  # fmt: skip
        assert found.images[0].tobytes() == true.images[0].tobytes()
        assert (found.boxes, found.objects, found.proposal_bbox) == (true.boxes, true.objects, true.proposal_bbox)
        for key in ("pseudo_ground_truth", "key_facts"):
            assert found.meta[key] == true.meta[key]


@pytest.mark.parametrize("stage", ["_relate", "_roll", "_describe"])
@pytest.mark.parametrize("batches", [0, 1])
def test_killed_in_any_stage_it_resumes_to_the_same_files(whole, stage, batches, tmp_path, monkeypatch):
    original, calls = getattr(padlayer.PaDLayer, stage), []

    def dying(self, ids):
        if len(calls) == batches:
            raise KeyboardInterrupt
        calls.extend([ids])
        return original(self, ids)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(padlayer.PaDLayer, stage, dying)
        prepare(job(tmp_path))
    again = []

    def counting(self, ids):
        again.extend(ids)
        return original(self, ids)

    monkeypatch.setattr(padlayer.PaDLayer, stage, counting)
    prepare(job(tmp_path))
    assert not {i for ids in calls for i in ids} & set(again), "nothing is done twice"
    assert files(tmp_path) == files(whole[0])


def test_other_settings_in_the_same_folder_are_refused(whole):
    assert "begun with other settings (limits)" in refused(job(whole[0], "job.limits.max_accuracy=1.0"))


def test_the_output_trains_with_judged_and_other_methods(whole, tmp_path):
    small = ["data.batch_size=4", "algorithm.mini_batch=4", "algorithm.micro_batch=4", "rollout.group=4", "steps=1"]
    data = ["data=jsonl", f"data.path={whole[0]}/train.jsonl", "template=think", "logger=csv"]
    chain = "callbacks=[palmr,ced]"
    assert fit(config(tmp_path, *small, *data, chain))["optimizer_steps"] == 1
    rows = (tmp_path / "csv" / "metrics.csv").read_text().splitlines()
    metrics = dict(zip(rows[0].split(","), rows[1].split(","), strict=True))
    assert float(metrics["palmr/no_reference_rate"]) == 0.0 == float(metrics["palmr/failed_rate"])
    assert float(metrics["palmr/judged_rate"]) > 0


def test_the_first_right_response_is_the_reference_of_one_candidate(whole, tmp_path):
    report = prepare(job(tmp_path, "job.limits.best_of=1"))
    assert report["references"]["duels"] == 0 and report["kept"] == whole[1]["kept"]
    rollouts = {row["id"]: row for row in read_rows(tmp_path / "rollouts.jsonl")}
    for row in read_rows(tmp_path / "references.jsonl"):
        assert row["reference"] == rules.candidates(rollouts[row["id"]])[0]


def test_a_refresh_keeps_every_sample_and_replaces_references_that_are_beaten(whole, tmp_path):
    """Every other old reference is made false: those are replaced, and no true one is by a worse."""
    shutil.copytree(whole[0], tmp_path / "old")
    before = read_rows(tmp_path / "old" / "train.jsonl")
    for row in before[::2]:
        row["reference"] = " . ".join(["red circle top left"] * 8) + " . \\boxed{red}"
    write_rows(tmp_path / "old" / "train.jsonl", before)
    data = ["data=jsonl", f"data.path={tmp_path}/old/train.jsonl", "job.refresh=true", "seed=1"]
    report = prepare(job(tmp_path / "new", *data))
    after = {row["id"]: row for row in read_rows(tmp_path / "new" / "train.jsonl")}
    assert set(after) == {row["id"] for row in before}
    for row in before:
        assert after[row["id"]]["pseudo_ground_truth"] == row["pseudo_ground_truth"]
    same = [after[row["id"]]["reference"] == row["reference"] for row in before]
    assert not any(same[::2]) and any(same[1::2])
    assert report["references"]["kept_old"] == sum(same)


def test_a_file_of_ones_own_without_pictures_or_annotations(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"question": "one and one?", "answer": "2"}) + "\n")
    assert "no sample of the source has a picture" in refused(job(tmp_path / "a", "data=jsonl", f"data.path={path}"))
    World("val", 1, seed=3)[0].images[0].save(tmp_path / "a.png")
    path.write_text(json.dumps({"image": "a.png", "question": "how many?", "answer": "2"}) + "\n")
    data = ["data=jsonl", f"data.path={path}", "job.limits.candidates=null"]
    assert refused(job(tmp_path / "b", *data)).endswith(f"stage relevance of {tmp_path}/b: 1 unanswered")
    assert refused(job(tmp_path / "c", *data, "job.refresh=true")).endswith(": 1 not_annotated")


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("job.limits.min_accuracy=0.9", "min_accuracy=0.9 <= max_accuracy=0.875"),
        ("job.limits.per_domain=0", "job.limits.per_domain=0 must be at least 1 or null"),
        ("job.batch=0", "job.batch=0 must be at least 1"),
        ("captioner=openai", "captioner=openai needs a model: captioner.chat.model="),
        ("judge=openai", "judge=openai needs a model: judge.chat.model="),
        ("data=jsonl", "no data file is named"),
        ("model=hub", "no model is named"),
    ],
)
def test_mistakes_are_one_line(tmp_path, override, words):
    assert words in refused(job(tmp_path, override))
