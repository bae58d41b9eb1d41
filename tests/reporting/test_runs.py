"""Run folders are found and read; what is torn is said in one line."""

from __future__ import annotations

import pytest
from run_case import make_run
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from mmcredit.reporting.runs import find_runs, load_run
from mmcredit.types import UserError


def test_a_sweep_is_found_in_the_order_of_its_jobs(tmp_path):
    for i in (10, 2, 0):
        make_run(tmp_path / "sweep" / str(i))
    assert [path.name for path in find_runs([tmp_path])] == ["0", "2", "10"]
    assert find_runs([tmp_path / "sweep" / "2", tmp_path]) == find_runs([tmp_path / "sweep" / "2", tmp_path, tmp_path])
    assert [path.name for path in find_runs([tmp_path / "sweep" / "2"])] == ["2"]


@pytest.mark.parametrize(("name", "words"), [("nothing", "is no folder"), ("empty", "holds no run")])
def test_places_without_runs(tmp_path, name, words):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=words):
        find_runs([tmp_path / name])


def test_what_a_run_left_is_read(tmp_path):
    run = load_run(make_run(tmp_path / "a", "CED", seed=3, curves={"reward/total": [0.1, 0.2], "ced/gate": [1.0, 0.5]}))
    assert (run.seed, run.chain, run.summary["metrics_end"]) == (3, "CED", {"val/accuracy": 0.5})
    assert run.curves == {"reward/total": {1: 0.1, 2: 0.2}, "ced/gate": {1: 1.0, 2: 0.5}}
    assert run.config["rollout.group"] == 4 and run.provenance["template"] == "cd"


def test_tensorboard_files_are_read_the_torn_one_up_to_its_tear(tmp_path):
    folder = make_run(tmp_path / "a")
    writer = EventFileWriter(str(folder / "tensorboard"))
    from tensorboard.compat.proto.event_pb2 import Event

    for step in (1, 2, 3):
        values = [Summary.Value(tag="reward/total", simple_value=step / 4)]
        writer.add_event(Event(step=step, summary=Summary(value=values)))
    writer.close()
    (file,) = (folder / "tensorboard").iterdir()
    assert load_run(folder).curves == {"reward/total": {1: 0.25, 2: 0.5, 3: 0.75}}
    file.write_bytes(file.read_bytes()[:-5])
    assert load_run(folder).curves == {"reward/total": {1: 0.25, 2: 0.5}}


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("summary.json", None, "there is no summary.json: the run was stopped before its end, or goes on"),
        ("summary.json", '{"methods": [', "summary.json is torn"),
        ("summary.json", "[1]", "summary.json is no JSON object"),
        ("summary.json", '{"methods": []}', "summary.json has no steps, metrics_end, seconds_by_stage"),
        ("provenance.json", "{", "provenance.json is torn"),
        ("config/config.yaml", "a: [", "config/config.yaml cannot be read"),
        ("config/config.yaml", "\x00", "config/config.yaml cannot be read"),
        ("config/config.yaml", "- 1\n", "no seed or steps in it"),
        ("config/config.yaml", "a: 1\n", "no seed or steps in it"),
        ("config/config.yaml", None, "config/config.yaml cannot be read"),
        ("csv/metrics.csv", "reward/total,step\nhigh,1\n", "csv/metrics.csv is torn"),
        ("csv/metrics.csv", "reward/total,step\n0.5,1\n0.", None),
        ("tensorboard/events.out.tfevents.1", "nonsense", None),
    ],
)
def test_torn_and_missing_files_give_one_line(tmp_path, file, content, words):
    folder = make_run(tmp_path / "a", curves={"reward/total": [0.5]})
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(content)
    if words is None:
        load_run(folder)
        return
    with pytest.raises(UserError) as caught:
        load_run(folder)
    assert words in str(caught.value) and str(folder) in str(caught.value) and "\n" not in str(caught.value)
