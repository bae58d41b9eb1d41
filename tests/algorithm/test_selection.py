"""Dynamic sampling: what is kept, in which order, and that every run ends."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import torch
from test_fit import SMALL, config, losses

from mmcredit.algorithm import selection
from mmcredit.algorithm.selection import Batch, DynamicSampling, collect
from mmcredit.credit import Record
from mmcredit.fit import fit
from mmcredit.rollout.parts import join, take
from mmcredit.types import Grades, Prompts, Responses, Rollout, UserError

GROUP = 4


def rollout_of(names: Sequence[str], right: Sequence[int], length: int) -> Rollout:
    """Prompt ``names[i]`` with ``right[i]`` of its answers right; responses of about the length."""
    b = len(names)
    correct = torch.arange(GROUP) < torch.tensor(right).view(b, 1)
    lengths = (torch.arange(GROUP) + length - GROUP + 1).clamp(min=1).expand(b, GROUP)
    mask = torch.arange(length) < lengths[..., None]
    ids = mask * torch.arange(1, b + 1)[:, None, None]
    texts = tuple((name,) * GROUP for name in names)
    prompts = Prompts(tuple(names), tuple(names), (None,) * b, (None,) * b)
    responses = Responses(ids, mask, texts, texts)
    grades = Grades(correct.float(), correct, correct, texts, mask & False)
    return Rollout(prompts, responses, grades, 3, -mask.float(), correct.float())


def random_tries(seed: int, size: int, tries: int, share: float) -> list[Rollout]:
    rng = random.Random(seed)
    return [
        rollout_of(
            [f"{n}-{i}" for i in range(size)],
            [rng.randint(1, GROUP - 1) if rng.random() < share else rng.choice([0, GROUP]) for _ in range(size)],
            rng.randint(2, 9),
        )
        for n in range(tries)
    ]


def kept_by_loops(tries: Sequence[Rollout], size: int) -> tuple[list[str], int]:
    """Names of the kept prompts, and how many tries that took."""
    names: list[str] = []
    for n, tried in enumerate(tries, 1):
        for name, correct in zip(tried.prompts.samples, tried.grades.correct_BG.tolist(), strict=True):
            if 0.01 < sum(correct) / len(correct) < 0.99:
                names.append(name)
        if len(names) >= size:
            return names[:size], n
    return names, len(tries)


@pytest.mark.parametrize("seed", range(8))
def test_the_batch_is_the_loop(seed: int) -> None:
    tries, record = random_tries(seed, 8, 5, (0.1, 0.3, 0.6, 1.0)[seed % 4]), Record()
    names, used = kept_by_loops(tries, 8)
    left = iter(tries)
    batch = collect(lambda: next(left), DynamicSampling(max_tries=5), record)
    assert list(batch.rollout.prompts.samples) == names and batch.total == len(names)
    assert batch.places == tuple(range(len(names)))
    assert record.scalars["selection/tries"] == used
    accuracy = [c for tried in tries[:used] for row in tried.grades.correct_BG.tolist() for c in row]
    assert record.scalars["selection/solve_rate"] == pytest.approx(sum(accuracy) / len(accuracy))
    whole = {name: (tried, b) for tried in tries for b, name in enumerate(tried.prompts.samples)}
    for b, name in enumerate(names):
        source, place = whole[name]
        length, mask = source.shape[2], batch.rollout.mask_BGT[b]
        assert torch.equal(mask[:, :length], source.mask_BGT[place]) and not mask[:, length:].any()
        assert torch.equal(batch.rollout.responses.ids_BGT[b, :, :length], source.responses.ids_BGT[place])
        assert torch.equal(batch.rollout.grades.correct_BG[b], source.grades.correct_BG[place])
        assert batch.rollout.responses.texts[b] == source.responses.texts[place]


class Ranks:
    """Plays the ranks one after another: what each puts into ``gather`` is known from the tries."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tries: Sequence[Rollout], count_: int) -> None:
        self.shares = [[take(t, range(r, len(t.prompts), count_)) for t in tries] for r in range(count_)]
        self.patch, self.count = monkeypatch, count_

    def collect(self, rank: int, sampling: DynamicSampling) -> Batch:
        numbers = count()

        def gather(value: object) -> list[object]:
            n = next(numbers)
            corrects = [share[n].grades.correct_BG for share in self.shares]
            return [(sampling.keep(c).tolist(), float(c.float().mean())) for c in corrects]

        for name, known in (("gather", gather), ("rank", lambda: rank), ("world", lambda: self.count)):
            self.patch.setattr(selection, name, known)
        left = iter(self.shares[rank])
        return collect(lambda: next(left), sampling, Record())


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("seed", range(6))
def test_ranks_together_keep_what_one_rank_keeps(seed: int, ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = random_tries(seed, 8, 4, (0.05, 0.2, 0.6)[seed % 3])
    names, _ = kept_by_loops(tries, 8)
    played = Ranks(monkeypatch, tries, ranks)
    batches = [played.collect(r, DynamicSampling(max_tries=4)) for r in range(ranks)]
    placed = {p: name for b in batches for p, name in zip(b.places, b.rollout.prompts.samples, strict=False)}
    assert [placed[p] for p in sorted(placed)] == names
    assert {b.total for b in batches} == {len(names)}
    for number in range(0, len(names), 2):  # mini-batches of two prompts over all ranks
        parts = [b.rollout.prompts.samples[b.mini_batches(2)[number // 2]] for b in batches]
        assert sorted(sum(parts, ())) == sorted(names[number : number + 2])


@pytest.mark.parametrize(("places", "total", "size"), [((0, 3, 4, 9), 10, 4), ((), 5, 2), ((4,), 5, 2), ((0, 1), 2, 8)])
def test_mini_batches_by_place(places: tuple[int, ...], total: int, size: int) -> None:
    minis = Batch(rollout_of(["x"], [1], 3), places, total).mini_batches(size)
    want = [[p for p in places if start <= p < start + size] for start in range(0, total, size)]
    assert [list(places[mini]) for mini in minis] == want


def test_taking_nothing_and_joining_it() -> None:
    whole = rollout_of(["a", "b", "c"], [1, 2, 3], 5)
    nothing = take(whole, [])
    assert nothing.shape == (0, GROUP, 5) and len(nothing.prompts) == 0
    joined = join([nothing, take(whole, [2, 0]), nothing, rollout_of(["d"], [1], 8)])
    assert joined.prompts.samples == ("c", "a", "d") and joined.shape == (3, GROUP, 8) and joined.step == 3
    assert joined.mask_BGT.dtype == torch.bool and joined.grades.correct_BG.sum(1).tolist() == [3, 1, 1]


@pytest.mark.parametrize("changes", [{"low": 0.9, "high": 0.5}, {"max_tries": 0}])
def test_bad_values_are_named(changes: dict[str, float]) -> None:
    with pytest.raises(UserError, match=r"algorithm\.selection: low=.*high=.*max_tries="):
        replace(DynamicSampling(), **changes)


# --- whole runs ---------------------------------------------------------------------------------------------------

DAPO = [*SMALL, "algorithm=dapo", "callbacks=[]", "reward._target_=fakes.Ruled", "data.batch_size=8"]
DAPO += ["algorithm.mini_batch=2", "data.val.val.size=0", "data.val.counter_prior.size=0"]
Run = Callable[..., Path]


def rows(folder: Path, key: str) -> dict[int, float]:
    """A logged scalar by step."""
    lines = (folder / "csv" / "metrics.csv").read_text().splitlines()
    names = lines[0].split(",")
    found = [dict(zip(names, line.split(","), strict=True)) for line in lines[1:]]
    return {int(row["step"]): float(row[key]) for row in found if row.get(key)}


def test_reward_always_one_skips_every_step_and_ends(tmp_path, caplog):
    with caplog.at_level("WARNING"):
        summary = fit(config(tmp_path, *DAPO, "steps=3", "algorithm.selection.max_tries=2"))
    assert summary["steps"] == 3 and summary["optimizer_steps"] == 0
    assert rows(tmp_path, "train/skipped_steps") == {1: 1, 2: 2, 3: 3}
    assert set(rows(tmp_path, "selection/tries").values()) == {2}
    assert set(rows(tmp_path, "selection/solve_rate").values()) == {1.0}
    assert caplog.text.count("kept 0 of 8 prompts in 2 tries (solve rate 1.00): the step is skipped") == 3


def test_one_mixed_group_in_eight_trains_on_what_there_is(tmp_path, caplog):
    with caplog.at_level("WARNING"):
        options = ["+reward.one_in=8", "algorithm.selection.max_tries=3", "steps=2"]
        summary = fit(config(tmp_path, *DAPO, *options))
    assert summary["optimizer_steps"] == 2 * 2  # three prompts in mini-batches of two
    assert rows(tmp_path, "selection/kept_rate") == {1: 1 / 8, 2: 1 / 8}
    assert set(rows(tmp_path, "reward/zero_variance_rate").values()) == {0.0}
    assert set(rows(tmp_path, "reward/accuracy").values()) == {0.5}
    assert set(rows(tmp_path, "train/skipped_steps").values()) == {0}
    assert caplog.text.count("kept 3 of 8 prompts in 3 tries (solve rate 0.94): training on them") == 2


def test_a_full_batch_drops_the_surplus_and_resumes_exactly(tmp_path):
    """About half of the groups are mixed. Two steps and two more are four steps, bit by bit."""
    names = ",".join(f"world-0-train-{i}" for i in range(64) if i % 8 < 4)
    mixed = [f"+reward.mixed=[{names}]", "data.train.size=64"]
    options = [*DAPO, *mixed, "algorithm.mini_batch=4", "algorithm.micro_batch=4"]
    fit(config(tmp_path / "whole", *options, "steps=4"))
    fit(config(tmp_path / "a", *options, "steps=2"))
    fit(config(tmp_path / "b", *options, "steps=4", f"ckpt_path={tmp_path}/a/checkpoints/last.ckpt"))
    whole = losses(tmp_path / "whole")
    assert len(whole) == 4 and losses(tmp_path / "a") | losses(tmp_path / "b") == whole
    assert max(rows(tmp_path / "whole", "selection/tries").values()) > 1
    saved = [torch.load(tmp_path / f / "checkpoints/last.ckpt", weights_only=True) for f in ("whole", "b")]
    assert saved[0]["mmcredit"] == saved[1]["mmcredit"] and saved[0]["mmcredit"]["drawn_batches"] > 4
    for name, weight in saved[0]["state_dict"].items():
        assert torch.equal(weight, saved[1]["state_dict"][name]), name
