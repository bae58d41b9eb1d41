"""Every question against a plain reading of the annotations; templates; order, seeds, splits, quotas."""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest
from tests.data.coco.conftest import recipe
from tests.data.coco.corpus import CATEGORIES
from tests.data.coco.oracle import TEMPLATES, Oracle, centre, painted

from mmcredit.data.coco.attribute import Size, Type
from mmcredit.data.coco.construct import Constructed, construct
from mmcredit.data.coco.counting import Count
from mmcredit.data.coco.question import split_of
from mmcredit.data.coco.spatial import Relation
from mmcredit.types import Box, UserError

PLENTY = [
    f"questions.tasks.{task}.per_image=999" for task in ("count", "count_exclusion", "relation", "located", "type")
]
PLENTY += [f"questions.tasks.{task}.per_image=999" for task in ("spatial_chain", "occlusion", "size")]


@pytest.fixture(scope="module")
def everything(digits) -> Constructed:
    return construct(digits[0], digits[1], recipe(*PLENTY))


@pytest.fixture(scope="module")
def rows(everything) -> list[dict]:
    return [json.loads(json.dumps(q.row("x.png"))) for q in everything.questions]


def test_every_task_asks(everything):
    counts = Counter(q.task for q in everything.questions)
    assert set(counts) == set(TEMPLATES) - {"colour"}
    assert all(count >= 5 for count in counts.values()), counts


def test_every_answer_is_that_of_the_raw_annotations(rows, digits):
    oracle = Oracle(digits[2])
    assert len(rows) > 800
    for row in rows:
        assert row["answer"] == oracle.answer(row), row


def test_families_kinds_and_templates(rows):
    families = {"count": "counting", "count_exclusion": "counting", "type": "attribute", "size": "attribute"}
    families |= dict.fromkeys(("relation", "located", "spatial_chain", "occlusion"), "spatial")
    for row in rows:
        assert row["family"] == families.get(row["task_type"], "presence")
        assert re.fullmatch(TEMPLATES[row["task_type"]], row["question"])
        assert row["answer_kind"] == {"counting": "integer", "presence": "yes_no"}.get(
            row["family"], "list" if row["task_type"] == "spatial_chain" else "word"
        )
        assert (row["question"].startswith("Are")) == bool(re.match(r"\w+ (the|there any) scissors", row["question"]))
    assert len({row["id"] for row in rows}) == len(rows)


def test_evidence_is_the_boxes_of_the_annotations_named(rows, digits):
    by_id = {a["id"]: a for a in digits[2]["annotations"]}
    for row in rows:
        things = [by_id[i] for i in row["meta"]["ann_ids"]]
        assert row.get("boxes", []) == [t["bbox"] for t in things]
        assert row["gt_present"] == bool(things) == ("proposal_bbox" in row)
        if things:
            assert row["proposal_bbox"] == row["boxes"][0] and row["box_format"] == "xywh_abs"
        if row["task_type"] == "count":
            assert len(things) == int(row["answer"])
        if row["task_type"] == "count_exclusion":
            assert len(things) - 1 > int(row["answer"]) > 0
        if row["family"] not in ("counting", "presence") and row["task_type"] not in ("relation", "spatial_chain"):
            assert dict((i, n) for i, n, _ in CATEGORIES)[things[0]["category_id"]] == row["answer"]


def test_every_proposal_can_be_seen_and_measured(rows):
    """Bounds of area and tokens, and a box of the same size somewhere: the best places are the corners."""
    for row in rows:
        if "proposal_bbox" not in row:
            continue
        x, y, w, h = row["proposal_bbox"]
        assert 0.005 <= w * h / (320 * 256) <= 0.35 and min(w, h) >= 32
        corners = [Box(left, top, w, h) for left in (0, 320 - w) for top in (0, 256 - h)]
        assert min(Box(x, y, w, h).iou(corner) for corner in corners) <= 0.05
        assert row["meta"]["area_fraction"] == pytest.approx(w * h / (320 * 256), abs=1e-6)


def seen(t: dict) -> bool:
    return t["bbox"][2] * t["bbox"][3] >= 0.005 * 320 * 256 and min(t["bbox"][2:]) >= 32


def test_nothing_that_is_eligible_is_left_out(everything, digits):
    """Counts, relations, kinds and sizes, enumerated from the raw annotations."""
    oracle, expected = Oracle(digits[2]), set()
    kinds = {i: kind for i, _, kind in CATEGORIES}
    for image, things in oracle.of.items():
        groups = {c: [t for t in things if t["category_id"] == c] for c, _, _ in CATEGORIES}
        clean = {c: g for c, g in groups.items() if g and not any(t["iscrowd"] for t in g) and not twins(g)}
        expected |= {(image, "count", str(c)) for c, g in clean.items() if all(map(seen, g))}
        single = {c: g[0] for c, g in clean.items() if len(g) == 1 and seen(g[0])}
        for c, d in combinations(sorted(single, key=lambda c: oracle.names[c]), 2):
            a, b = single[c], single[d]
            for axis, word, side in ((0, "left", 320), (1, "above", 256)):
                far = abs(centre(a)[axis] - centre(b)[axis]) >= 0.15 * side
                if far and Box(*a["bbox"]).iou(Box(*b["bbox"])) < 0.1:
                    expected.add((image, "relation", f"{word}-{c}-{d}"))
            areas = sorted(painted(t).sum() for t in (a, b))
            if areas[1] >= 1.5 * areas[0]:
                expected.add((image, "size", f"{c}-{d}"))
        for t in things:
            rivals = [o for o in things if o["category_id"] != t["category_id"]]
            rivals = [o for o in rivals if kinds[o["category_id"]] == kinds[t["category_id"]]]
            alone = not any((box(t) & box(o)).any() for o in rivals)
            if (
                t["category_id"] in clean
                and seen(t)
                and alone
                and kinds[t["category_id"]] in ("animal", "vehicle", "kitchen")
            ):
                expected.add((image, "type", str(t["id"])))
    found = {(q.picture.id, q.task, q.draft.key) for q in everything.questions}
    tasks = {task.name for task in (Count, Relation, Size, Type)}
    assert {f for f in found if f[1] in tasks} == expected and len(expected) > 300


def twins(group: list[dict]) -> bool:
    return any(Box(*a["bbox"]).iou(Box(*b["bbox"])) > 0.9 for a, b in combinations(group, 2))


def box(t: dict):
    import numpy as np

    found = np.zeros((256, 320), bool)
    x, y, w, h = map(int, t["bbox"])
    found[y : y + h, x : x + w] = True
    return found


def test_the_order_of_the_file_changes_nothing(digits, tmp_path):
    data = json.loads(digits[0].read_text())
    before = [
        q.row("")
        for q in construct(digits[0], digits[1], recipe("questions.ratio={counting: 1, spatial: 3}")).questions
    ]
    for part in data.values():
        random.Random(5).shuffle(part)
    path = tmp_path / "shuffled.json"
    path.write_text(json.dumps(data))
    after = construct(path, digits[1], recipe("questions.ratio={counting: 1, spatial: 3}"))
    assert [q.row("") for q in after.questions] == before


def test_the_seed_draws_other_questions_but_no_other_split(digits):
    made = [construct(digits[0], digits[1], recipe(f"seed={seed}")).questions for seed in (0, 0, 1)]
    texts = [[(q.uid, q.draft.question) for q in questions] for questions in made]
    assert texts[0] == texts[1] != texts[2]
    splits = [{q.picture.id: q.split for q in questions} for questions in made]
    assert all(splits[2][key] == split for key, split in splits[0].items() if key in splits[2])


def test_splits_are_those_of_the_release():
    """int(md5(str(image_id))[:8], 16) / 0xFFFFFFFF below .8, below .9, beyond."""
    for image_id in range(2000):
        share = int(hashlib.md5(str(image_id).encode()).hexdigest()[:8], 16) / 0xFFFFFFFF
        assert split_of(image_id) == ("train" if share < 0.8 else "val" if share < 0.9 else "probe")
    counts = Counter(map(split_of, range(20000)))
    assert abs(counts["train"] / 20000 - 0.8) < 0.01 and abs(counts["val"] / 20000 - 0.1) < 0.01


def test_no_picture_is_in_two_splits_and_presence_is_for_the_probe_alone(everything):
    by_picture: dict = {}
    for q in everything.questions:
        assert by_picture.setdefault(q.picture.id, q.split) == q.split
        assert q.split == "probe" or q.family != "presence"
    assert set(by_picture.values()) == {"train", "val", "probe"}


@pytest.mark.parametrize("law", ["random", "popular", "cooccurring"])
def test_presence_has_as_many_yes_as_no_of_every_category(law, digits):
    options = ["questions.use=[existence]", "questions.tasks.existence.splits=[train,probe]"]
    options += [f"questions.tasks.existence.law.path=mmcredit.data.coco.presence.{law}"]
    cells = Counter()
    for q in construct(digits[0], digits[1], recipe(*options)).questions:
        cells[q.split, q.draft.question, q.draft.answer] += 1
        assert (q.proposal is None) == (q.draft.answer == "no")
    assert cells.total() > 20
    assert all(cells[s, text, "no" if a == "yes" else "yes"] == n for (s, text, a), n in cells.items())


def test_popular_absent_categories_come_first(digits):
    counts = Counter()
    for things in Oracle(digits[2]).of.values():
        counts.update({t["category_id"] for t in things})
    asked = {}
    for law in ("random", "popular"):
        options = ["questions.use=[existence]", f"questions.tasks.existence.law.path=mmcredit.data.coco.presence.{law}"]
        options += ["questions.tasks.existence.splits=[train]", "questions.tasks.existence.per_image=1"]
        questions = construct(digits[0], digits[1], recipe(*options)).questions
        asked[law] = Counter(q.draft.key for q in questions if q.draft.answer == "no")
    ranks = {f"{c}-no": rank for rank, (c, _) in enumerate(counts.most_common())}
    means = {law: sum(ranks[k] * n for k, n in c.items()) / c.total() for law, c in asked.items()}
    assert means["popular"] < means["random"]


def test_quotas_and_turns(digits):
    made = construct(digits[0], digits[1], recipe("questions.ratio={attribute: 3, counting: 1, spatial: 3}"))
    for split in ("train", "val", "probe"):
        counts = Counter(q.family for q in made.questions if q.split == split)
        assert (
            abs(counts["attribute"] - 3 * counts["counting"]) <= 2 and abs(counts["spatial"] - counts["attribute"]) <= 1
        )
    answers = Counter(q.draft.answer for q in made.questions if q.task == "count")
    full = Counter(q.draft.answer for q in construct(digits[0], digits[1], recipe()).questions if q.task == "count")
    assert answers["1"] / answers.total() < full["1"] / full.total(), "rare answers take turns with frequent ones"


def test_what_was_not_kept_has_a_reason(digits):
    made = construct(digits[0], digits[1], recipe("questions.ratio={counting: 1, spatial: 1}"))
    reasons = set().union(*made.outcomes.values())
    assert {"kept", "crowd", "below_a_token", "surplus", "quota", "gap", "overlap", "ratio", "ambiguous"} <= reasons
    assert sum(c["kept"] for c in made.outcomes.values()) == len(made.questions)
    assert made.pictures == {"usable": 158} and [g.kept for g in made.gates] == [160, len(digits[2]["annotations"])]


def test_at_most_two_of_a_task_on_a_picture(digits):
    counts = Counter((q.picture.id, q.task, q.draft.answer if q.family == "presence" else "")
                     for q in construct(digits[0], digits[1], recipe()).questions)  # fmt: skip
    assert max(counts.values()) == 2


def test_a_union_box_covers_all_boxes_where_it_is_fit(digits):
    made = construct(digits[0], digits[1], recipe("questions.evidence=union"))
    wider = 0
    for q in made.questions:
        if q.proposal is None:
            continue
        boxes = q.draft.boxes
        whole = all(q.proposal.x <= b.x and q.proposal.x + q.proposal.w >= b.x + b.w for b in boxes)
        assert whole or q.proposal == boxes[0]
        assert q.area_fraction <= 0.5
        wider += whole and len(boxes) > 1
    assert wider > 20


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("questions.evidence=some", "questions.evidence='some' must be one of primary, union, all"),
        ("questions.use=[counts]", "there is no task 'counts'; there are count, count_exclusion"),
        ("questions.use=[]", "must name a task"),
        ("questions.ratio={counting: 0}", "shares of ratio be at least 1"),
        ("questions.fitness.min_area=0.5", "min_area <= max_area"),
        ("questions.fitness.token=0", "token >= 2"),
        ("questions.tasks.existence.splits=[test]", "split 'test' does not exist"),
    ],
)
def test_mistakes_are_named(override, words):
    from mmcredit.launch import user_error

    with pytest.raises(Exception) as caught:
        recipe(override)
    assert isinstance(user_error(caught.value), UserError) and words in str(user_error(caught.value))


def test_colours_are_those_that_were_painted(tmp_path: Path):
    """Opt-in. A plain square of each basic colour, and one that is half and half."""
    from PIL import Image

    paints = {
        "black": (10, 10, 12), "white": (250, 250, 248), "grey": (128, 128, 128), "brown": (120, 70, 20),
        "pink": (255, 170, 190), "red": (210, 20, 25), "orange": (255, 140, 0), "yellow": (250, 220, 20),
        "green": (30, 150, 50), "blue": (30, 60, 200), "purple": (120, 30, 160),
    }  # fmt: skip
    data: dict = {"images": [], "annotations": [], "categories": [{"id": 3, "name": "car", "supercategory": "vehicle"}]}
    for n, paint in enumerate([*paints.values(), (210, 20, 25)]):
        picture = Image.new("RGB", (200, 200), (90, 200, 90))
        picture.paste(paint, (40, 40, 100, 100))
        if n == len(paints):
            picture.paste((30, 60, 200), (40, 40, 70, 100))
        picture.save(tmp_path / f"{n}.png")
        data["images"].append({"id": n, "file_name": f"{n}.png", "width": 200, "height": 200})
        square = [40, 40, 100, 40, 100, 100, 40, 100]
        data["annotations"].append({"id": n, "image_id": n, "category_id": 3, "bbox": [40, 40, 60, 60], "iscrowd": 0,
                                    "area": 3600, "segmentation": [square]})  # fmt: skip
    path = tmp_path / "i.json"
    path.write_text(json.dumps(data))
    made = construct(path, tmp_path, recipe("questions.use=[colour]"))
    assert {q.picture.id: q.draft.answer for q in made.questions} == dict(enumerate(paints))
    assert made.outcomes["colour"]["several_colours"] == 1
    assert made.questions[0].draft.question == "What is the dominant colour of the car?"
