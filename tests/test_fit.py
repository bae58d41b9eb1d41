"""The main job end to end: two steps, resume, a user's own file, and mistakes that end with one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import hydra
import pytest
import torch
from omegaconf import DictConfig
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from transformers import AutoModelForImageTextToText

import mmcredit.models
from mmcredit.algorithm.parent import Parent
from mmcredit.checkpoints import FORMAT
from mmcredit.checks import check
from mmcredit.data.world.source import World
from mmcredit.fit import fit
from mmcredit.launch import user_error
from mmcredit.models.processor import load_processor
from mmcredit.overrides import compose_error
from mmcredit.types import UserError

SMALL = ["data.batch_size=4", "algorithm.mini_batch=2", "algorithm.micro_batch=1", "rollout.group=4"]
SMALL += ["data.val.val.size=8", "data.val.counter_prior.size=8", "rollout.max_new_tokens=16", "logger=csv"]


def config(folder: Path, *overrides: str) -> DictConfig:
    folder.mkdir(parents=True, exist_ok=True)
    with hydra.initialize_config_module("mmcredit.configs", version_base="1.3"):
        return hydra.compose("fit", overrides=[f"run_dir={folder}", *overrides])


def losses(folder: Path) -> dict[int, str]:
    """Loss of each rollout step, as written (all digits)."""
    lines = (folder / "csv" / "metrics.csv").read_text().splitlines()
    names = lines[0].split(",")
    rows = [dict(zip(names, line.split(","), strict=True)) for line in lines[1:]]
    return {int(row["step"]): row["train/loss"] for row in rows if row.get("train/loss")}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken")
    fit(config(folder, *SMALL, "steps=4", "algorithm.kl_coef=0.01", "algorithm.epochs=2"))
    return folder


def test_stopping_and_resuming_changes_no_bit(unbroken, tmp_path):
    options = [*SMALL, "algorithm.kl_coef=0.01", "algorithm.epochs=2"]
    fit(config(tmp_path / "a", *options, "steps=2"))
    fit(config(tmp_path / "b", *options, "steps=4", f"ckpt_path={tmp_path}/a"))  # its last checkpoint
    whole = losses(unbroken)
    assert set(whole) == {1, 2, 3, 4} and len(set(whole.values())) == 4
    assert losses(tmp_path / "a") | losses(tmp_path / "b") == whole
    saved = [torch.load(f / "checkpoints/last.ckpt", weights_only=True) for f in (unbroken, tmp_path / "b")]
    for name, weight in saved[0]["state_dict"].items():
        assert torch.equal(weight, saved[1]["state_dict"][name]), name
    first, last = (json.loads((f / "summary.json").read_text()) for f in (unbroken, tmp_path / "b"))
    assert first["metrics_start"] == last["metrics_start"] and first["metrics_end"] == last["metrics_end"]
    assert first["val_accuracy_start"] == last["val_accuracy_start"] and not last["start_not_comparable"]


@pytest.mark.parametrize("known", [True, False], ids=["", "of a version that did not note them"])
def test_a_start_measured_on_other_questions_shows_no_gain(unbroken, tmp_path, capsys, known):
    saved = torch.load(unbroken / "checkpoints/last.ckpt", weights_only=True)
    if not known:
        del saved["mmcredit"]["start_sets"]
    torch.save(saved, tmp_path / "last.ckpt")
    options = [*SMALL, "algorithm.kl_coef=0.01", "steps=5", "data.val.val.size=4", f"ckpt_path={tmp_path}/last.ckpt"]
    summary, printed = fit(config(tmp_path / "run", *options)), capsys.readouterr().out
    assert summary["val_accuracy_start"] is None and summary["val_accuracy_end"] is not None
    assert (summary["counter_prior_accuracy_start"] is not None) == known
    other = ["val"] if known else ["counter_prior", "val"]
    assert summary["start_not_comparable"] == other
    assert not {key.split("/")[0] for key in summary["metrics_start"]} & {*other}
    assert (
        printed.count(" -> ") == known
        and f"not comparable: {', '.join(other)} had other questions, template or sampling then, or none noted"
        in printed
    )


def test_resuming_a_finished_run_or_a_foreign_file_is_refused(unbroken, tmp_path):
    with pytest.raises(UserError, match=r"has done 4 steps already: steps=4 must be above"):
        fit(config(tmp_path, *SMALL, "steps=4", f"ckpt_path={unbroken}/checkpoints/last.ckpt"))
    (tmp_path / "noise.ckpt").write_bytes(b"no checkpoint")
    torch.save({"weights": torch.zeros(2)}, tmp_path / "foreign.ckpt")
    for name in ("noise", "foreign"):
        with pytest.raises(UserError, match=f"{name}.ckpt is no checkpoint of mmcredit.fit"):
            fit(config(tmp_path, *SMALL, f"ckpt_path={tmp_path}/{name}.ckpt"))


def test_a_folder_of_parts_is_refused_where_models_are_whole(tmp_path):
    folder = tmp_path / "checkpoints" / "step-1.ckpt"
    folder.mkdir(parents=True)
    torch.save({"mmcredit": {"rollout_step": 1, "format": FORMAT}}, folder / "meta.pt")
    with pytest.raises(UserError, match=r"step-1.ckpt is a folder with a part from every rank: .* trainer=fsdp"):
        fit(config(tmp_path / "run", *SMALL, f"ckpt_path={tmp_path}"))


def test_a_checkpoint_of_another_version_is_refused_before_anything_is_loaded(unbroken, tmp_path):
    saved = torch.load(unbroken / "checkpoints/last.ckpt", weights_only=True)
    del saved["mmcredit"]["format"]
    torch.save(saved, tmp_path / "old.ckpt")
    with pytest.raises(UserError, match=rf"old.ckpt has checkpoint format none, this version .* format {FORMAT}"):
        fit(config(tmp_path / "run", *SMALL, "steps=9", f"ckpt_path={tmp_path}/old.ckpt"))


def agree(found: Path, expected: Path) -> None:
    """Losses to 1e-6 at the first step, to 1e-4 after four updates."""
    wanted = {step: float(loss) for step, loss in losses(expected).items()}
    for step, loss in losses(found).items():
        assert float(loss) == pytest.approx(wanted[step], abs=1e-6 if step == 1 else 1e-4), step


def test_micro_batches_change_no_loss(unbroken, tmp_path):
    options = [*SMALL, "steps=4", "algorithm.kl_coef=0.01", "algorithm.epochs=2"]
    fit(config(tmp_path, *options, "algorithm.micro_batch=2"))
    agree(tmp_path, unbroken)


def test_packing_changes_no_loss(tmp_path):
    """Without a method: CED divides differences of log-probs by their spread, and so may magnify rounding."""
    options = [*SMALL, "steps=4", "callbacks=[]", "algorithm.kl_coef=0.01", "algorithm.epochs=2"]
    fit(config(tmp_path / "packed", *options))
    fit(config(tmp_path / "padded", *options, "scoring.packed=false", "scoring.token_budget=300"))
    agree(tmp_path / "padded", tmp_path / "packed")


def test_resuming_with_other_trained_parameters_is_refused(unbroken, tmp_path):
    options = [*SMALL, "algorithm.kl_coef=0.01", "steps=5", f"ckpt_path={unbroken}/checkpoints/last.ckpt"]
    with pytest.raises(UserError, match=r"resume with the same model/train"):
        fit(config(tmp_path, *options, "model/train=last_layers", "model.train.count=2"))


@pytest.mark.parametrize(
    ("train", "trained"),
    [
        (
            ["model/train=last_layers", "model.train.count=2"],
            (".language_model.layers.2.", ".language_model.layers.3."),
        ),
        (["model/train=language"], (".language_model.",)),
    ],
    ids=["last_layers", "language"],
)
def test_frozen_parameters_stay_bit_equal(tmp_path, train, trained):
    """All others move, and they alone have optimizer states."""
    fit(config(tmp_path, *SMALL, "steps=1", *train))
    shipped = load_file(Path(mmcredit.models.__file__).parent / "tiny_qwen3vl" / "model.safetensors")
    now = load_file(tmp_path / "policy" / "model.safetensors")
    moved = {name for name in shipped if not torch.equal(shipped[name], now[name])}
    assert moved == {name for name in shipped if any(part in name for part in trained)}
    saved = torch.load(tmp_path / "checkpoints" / "last.ckpt", weights_only=True)
    assert len(saved["optimizer_states"][0]["state"]) == len(moved)


def test_adapters_alone_are_trained_and_exported_merged_and_by_themselves(tmp_path):
    pytest.importorskip("peft")
    fit(config(tmp_path, *SMALL, "steps=1", "model/train=lora", "algorithm.kl_coef=0.05"))
    shipped = load_file(Path(mmcredit.models.__file__).parent / "tiny_qwen3vl" / "model.safetensors")
    saved = torch.load(tmp_path / "checkpoints" / "last.ckpt", weights_only=True)
    for name, weight in saved["state_dict"].items():
        if "lora_" not in name and "lm_head" not in name:
            assert torch.equal(weight, shipped[name.removeprefix("policy.hf.").replace(".base_layer.", ".")]), name
    merged = load_file(tmp_path / "policy" / "model.safetensors")
    moved = {name for name in shipped if not torch.equal(shipped[name], merged[name])}
    assert merged.keys() == shipped.keys() and len(moved) == 4 * 7
    alone = load_file(tmp_path / "policy" / "adapter" / "adapter_model.safetensors")
    assert len(alone) == len(saved["optimizer_states"][0]["state"]) == 2 * len(moved)


def test_what_a_killed_run_has_measured_is_in_its_file(tmp_path):
    logger = hydra.utils.instantiate(config(tmp_path, "logger=csv").logger)
    for step in (1, 2):
        logger.log_metrics({"train/loss": float(step)}, step=step)
        assert losses(tmp_path)[step] == str(float(step))


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path, monkeypatch):
    def surrogate(self, ratio, advantage):
        return ratio * torch.nan

    monkeypatch.setattr(Parent, "surrogate", surrogate)
    with pytest.raises(FloatingPointError, match="loss of step 1 is not finite"):
        fit(config(tmp_path, *SMALL, "steps=2"))
    assert not (tmp_path / "policy").exists()


def test_bf16_arithmetic_over_float32_weights(tmp_path):
    assert fit(config(tmp_path, *SMALL, "steps=1", "trainer.precision=bf16-mixed"))["optimizer_steps"] == 2


def test_ced_says_when_no_family_is_routed(tmp_path, caplog):
    path = write_jsonl(tmp_path)
    rows = [json.loads(line) | {"family": "other"} for line in path.read_text().splitlines()]
    path.write_text("\n".join(map(json.dumps, rows)))
    small = [o for o in SMALL if "data.val" not in o]
    with caplog.at_level("WARNING"):
        fit(config(tmp_path / "run", *small, "data=jsonl", f"data.path={path}", "steps=1"))
    assert "CED changes no reward" in caplog.text and "other" in caplog.text


def test_ced_says_when_no_sample_has_an_evidence_box(tmp_path, caplog):
    path = write_jsonl(tmp_path)
    bare = [{k: v for k, v in json.loads(line).items() if k != "boxes"} for line in path.read_text().splitlines()]
    path.write_text("\n".join(map(json.dumps, bare)))
    small = [o for o in SMALL if "data.val" not in o]
    fit(config(tmp_path / "run", *small, "data=jsonl", f"data.path={path}", "steps=1"))
    assert "(100.0 %) name no evidence box: the middle of the picture is measured in its place" in caplog.text


def test_summary_export_and_checkpoint(unbroken):
    summary = json.loads((unbroken / "summary.json").read_text())
    for name in ("val_accuracy", "counter_prior_accuracy", "unsupported_rate"):
        assert 0 <= summary[f"{name}_start"] <= 1 and 0 <= summary[f"{name}_end"] <= 1
    assert summary["steps"] == 4 and summary["optimizer_steps"] == 16 and summary["seconds"] > 0
    exported = AutoModelForImageTextToText.from_pretrained(unbroken / "policy").state_dict()
    trained = torch.load(unbroken / "checkpoints/last.ckpt", weights_only=True)["state_dict"]
    for name, weight in exported.items():
        assert torch.equal(weight, trained[f"policy.hf.{name}"]), name
    assert load_processor(unbroken / "policy").tokenizer.chat_template


def test_tensorboard_shows_margins_and_samples(tmp_path):
    fit(config(tmp_path, *SMALL, "logger=tensorboard", "steps=1", "observers.metrics.histogram_every=1"))
    events = EventAccumulator(str(tmp_path / "tensorboard"), size_guidance={"images": 0, "tensors": 0})
    events.Reload()
    tags = events.Tags()
    shown = "ced/margin ced/gate ced/s_ev ced/s_non reward/total credit/advantage train/entropy train/kl_old"
    for key in (*shown.split(), "rollout/length"):
        assert key in tags["histograms"] and key in tags["scalars"], key
    wanted = "train/entropy train/kl_old rollout/length reward/non_constant_rate reward/zero_variance_rate"
    wanted += " reward/same_answer_different_reward_rate train/optimizer_steps train/rollout_steps val/accuracy"
    assert set(wanted.split()) <= set(tags["scalars"])
    assert "samples/0" in tags["images"] and "samples/0/text_summary" in tags["tensors"]


def test_correctness_only_has_no_extra_pass(tmp_path, capsys):
    fit(config(tmp_path, *SMALL, "callbacks=[]", "steps=1"))
    assert "correctness only" in capsys.readouterr().out


def write_jsonl(folder: Path, count: int = 20) -> Path:
    world = World("val", count, seed=9)
    lines = []
    for i in range(count):
        sample = world[i]
        sample.images[0].save(folder / f"{i}.png")
        boxes = [[b.x, b.y, b.w, b.h] for b in sample.boxes]
        row = {"image": f"{i}.png", "question": sample.question, "answer": sample.answer, "family": sample.family}
        lines.append(json.dumps(row | ({"boxes": boxes} if boxes else {})))
    path = folder / "mine.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_a_users_jsonl_trains(tmp_path):
    path = write_jsonl(tmp_path)
    small = [o for o in SMALL if "data.val" not in o]
    summary = fit(config(tmp_path / "run", *small, "data=jsonl", f"data.path={path}", "steps=2", "data.val_share=0.3"))
    assert summary["steps"] == 2 and summary["val_accuracy_end"] is not None
    assert summary["counter_prior_accuracy_end"] is None


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["rollout.group=1"], ["rollout.group=1", "at least 2"]),
        (["rollout.temperature=0"], ["temperature=0", "above 0"]),
        (["data.batch_size=6", "algorithm.mini_batch=4"], ["mini_batch=4", "batch_size=6", "1, 2, 3, 6"]),
        (["algorithm.micro_batch=3"], ["micro_batch=3", "mini_batch=16"]),
        (["steps=0"], ["steps=0 must be a whole number at least 1"]),
        (["rollout.group=null"], ["rollout.group=None must be a whole number at least 1"]),
        (["rollout.temperature=hot"], ["rollout.temperature=hot must be a number at least 0"]),
        (["rollout.temperature=nan"], ["rollout.temperature=nan must be a number"]),
        (["rollout.temperature=1e-300"], ["too small to divide by"]),
        (["rollout.top_p=1.5"], ["rollout.top_p=1.5 must be a number at least 0 and at most 1"]),
        (["steps=1.5"], ["steps=1.5 must be a whole number"]),
        (["seed=-1"], ["seed=-1 must be a whole number at least 0"]),
        (["max_grad_norm=-1"], ["max_grad_norm=-1 must be a number"]),
        (["algorithm.kl_coef=-1"], ["algorithm.kl_coef=-1 must be a number at least 0"]),
        (["data.val_batch_size=0"], ["data.val_batch_size=0 must be a whole number at least 1"]),
        (["callbacks.ced.ring=-1"], ["ring=-1"]),
        (["callbacks.ced.reward_clip=3"], ["reward_clip=3 must be [low, high] or null"]),
        (["ckpt_path=/nowhere/last.ckpt"], ["/nowhere/last.ckpt", "does not exist"]),
        (["data=jsonl"], ["data.path"]),
        (["data=jsonl", "data.path=/nowhere.jsonl"], ["/nowhere.jsonl", "does not exist"]),
        (["model.path=/nowhere"], ["/nowhere", "model.path"]),
        (["trainer=gpu"], ["no GPU", "trainer=cpu"]),
        (["callbacks.ced.k=0"], ["k=0"]),
        (["data.train.split=test"], ["'test'", "train, val, counter_prior"]),
        (["data.train.size=3"], ["batch_size=16", "3 training samples"]),
    ],
    ids=lambda v: " ".join(v) if isinstance(v[0], str) and "=" in v[0] else "",
)
def test_a_mistake_is_one_clear_line(tmp_path, overrides, words):
    with pytest.raises(Exception) as caught:
        fit(config(tmp_path, *overrides))
    mistake = user_error(caught.value)
    assert isinstance(mistake, UserError), caught.value
    assert "\n" not in str(mistake) and all(word in str(mistake) for word in words), str(mistake)


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(UserError, match="training data is empty"):
        fit(config(tmp_path, "data=jsonl", f"data.path={tmp_path}/empty.jsonl"))


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["callbacks=[cedd]"], ["there is no callbacks/cedd; callbacks has: ced"]),
        (["experiment=ced_qwen3v"], ["there is no experiment/ced_qwen3v; experiment has: ced_qwen25vl_3b"]),
        (["data=wrld"], ["there is no data/wrld; data has: ", "jsonl", "world"]),
        (["stepz=3"], ["stepz", "did you mean steps?"]),
        (["algorithm.clip_hihg=.3"], ["algorithm.clip_hihg", "did you mean clip_high?", "clip_low"]),
        (["rollot.group=3"], ["rollot.group", "did you mean rollout?"]),
        (["optimzer=adamw"], ["optimzer", "did you mean optimizer?"]),
        (["steps=[1"], ["steps=[1"]),
    ],
    ids=lambda v: v[0],
)
def test_a_misspelt_group_or_key_says_what_exists(overrides, words):
    problem = compose_error("fit", overrides)
    assert problem and "\n" not in problem and all(word in problem for word in words), problem


def test_overrides_that_compose_have_no_error():
    assert compose_error("fit", ["callbacks=[]", "steps=3", "hydra.run.dir=x", "data.path=y"]) is None


def test_the_recipe_without_its_hardware_says_what_is_missing(tmp_path):
    with pytest.raises(UserError) as caught:
        check(config(tmp_path, "experiment=ced_qwen3vl"))
    message = str(caught.value)
    for words in ("no GPU", "Qwen/Qwen3-VL-8B-Instruct", "data.path", "model=tiny data=world trainer=cpu"):
        assert words in message


def test_the_command_line_reports_and_exits_with_2(tmp_path):
    command = [sys.executable, "-m", "mmcredit.fit", "rollout.group=1", f"hydra.run.dir={tmp_path}/run"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: rollout.group=1") and len(done.stderr.splitlines()) == 1


def test_a_method_outside_the_repository(tmp_path):
    """A module on the path and a yaml in a folder given with --config-dir, as CONTRIBUTING says; in a sweep, too."""
    (tmp_path / "conf" / "callbacks").mkdir(parents=True)
    (tmp_path / "conf" / "callbacks" / "mine.yaml").write_text("mine:\n  _target_: mine.Mine\n")
    (tmp_path / "mine.py").write_text(
        "from mmcredit.credit import CreditCallback\n"
        "class Mine(CreditCallback):\n"
        "    paper = 'https://example.org'\n"
        "    def on_reward(self, rollout, scorer, record):\n"
        "        return rollout.reward_BG - 0.01 * rollout.mask_BGT.sum(-1)\n"
    )
    command = [sys.executable, "-m", "mmcredit.fit", "--config-dir", "conf", "-m", "callbacks=[mine]", "steps=1"]
    done = subprocess.run(
        [*command, *SMALL, f"hydra.sweep.dir={tmp_path}/sweep"],
        capture_output=True, text=True, cwd=tmp_path, check=False, env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads((tmp_path / "sweep" / "0" / "summary.json").read_text())["methods"] == ["Mine"]
    overrides = ["callbacks=[mine]", "steps=1"]
    assert compose_error("fit", overrides, str(tmp_path / "conf")) is None
    assert "callbacks/mine" in (compose_error("fit", overrides) or "")


def test_a_misspelt_name_is_answered_with_names_of_further_folders(tmp_path):
    (tmp_path / "callbacks").mkdir()
    (tmp_path / "callbacks" / "zebra.yaml").write_text("zebra:\n  _target_: zebra.Zebra\n")
    assert compose_error("fit", ["callbacks=[zebre]"], str(tmp_path)).endswith(", zebra")
    assert "ced," in compose_error("fit", ["callbacks=[zebre]"], str(tmp_path))
    assert ", zebra" not in compose_error("fit", ["callbacks=[zebre]"])
