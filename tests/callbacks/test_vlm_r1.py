"""VLM-R1 against a literal reference, boxes read from text, and its promises."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pytest
from judged_case import PICTURE, make_rollout

from mmcredit.callbacks.vlm_r1 import VLMR1, average_precision, corner_boxes, iou, mean_average_precision
from mmcredit.credit import Record
from mmcredit.data.world.scene import corner_of
from mmcredit.data.world.source import World
from mmcredit.services.oracle import quarters
from mmcredit.types import Box, Sample, UserError

SCORES = {"iou": iou, "map": mean_average_precision}
Corners = tuple[float, float, float, float]


def literal_iou(a: Corners, b: Corners) -> float:
    """Pixel by pixel on whole numbers."""
    cells = [{(x, y) for x in range(c[0], c[2]) for y in range(c[1], c[3])} for c in (a, b)]
    return len(cells[0] & cells[1]) / len(cells[0] | cells[1])


def literal_map(given: list[Corners], gold: list[Corners]) -> float:
    """For every threshold: match in order, then add precision (the best at this recall or above) for every new hit."""
    total = 0.0
    for step in range(10):
        threshold, used, hit = 0.5 + 0.05 * step, set(), []
        for box in given:
            best, best_iou = None, 0.0
            for i, target in enumerate(gold):
                if i not in used and literal_iou(box, target) > best_iou:
                    best, best_iou = i, literal_iou(box, target)
            hit.append(best is not None and best_iou >= threshold)
            if hit[-1]:
                used.add(best)
        precision = [sum(hit[: n + 1]) / (n + 1) for n in range(len(hit))]
        area = sum(max(precision[n:]) for n in range(len(hit)) if hit[n])
        total += area / len(gold)
    return total / 10


def random_boxes(rng: random.Random, count: int, near: list[Corners]) -> list[Corners]:
    boxes = []
    for _ in range(count):
        if near and rng.random() < 0.7:
            x1, y1, x2, y2 = (c + rng.choice([-1, 0, 0, 1]) for c in rng.choice(near))
        else:
            x1, y1 = rng.randint(0, 20), rng.randint(0, 20)
            x2, y2 = x1 + rng.randint(4, 12), y1 + rng.randint(4, 12)
        boxes.append((x1, y1, x2, y2))
    return boxes


@pytest.mark.parametrize("scale", [None, 1000])
@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("seed", range(8))
def test_reward_against_a_literal_reference(score, scale, seed):
    rng = random.Random(seed)
    b, g, samples, texts, expected, rewards = 5, 4, [], [], [], []
    correct = [[rng.random() < 0.5 for _ in range(g)] for _ in range(b)]
    well_formed = [[rng.random() < 0.5 for _ in range(g)] for _ in range(b)]
    for i in range(b):
        gold = random_boxes(rng, rng.randint(0, 3), [])
        boxes = tuple(Box(x1, y1, x2 - x1, y2 - y1) for x1, y1, x2, y2 in gold)
        samples.append(Sample(str(i), (PICTURE,), "q", "a", boxes=boxes))
        given = [random_boxes(rng, rng.randint(0, 4), gold) for _ in range(g)]
        factor = 1 if scale is None else scale / 128
        texts.append([f"boxes {[[c * factor for c in box] for box in own]}" for own in given])
        for own, right, kept in zip(given, correct[i], well_formed[i], strict=True):
            if not gold:
                found = float(right)
            elif score == "iou":
                found = literal_iou(own[0], gold[0]) if own else 0.0
            else:
                found = literal_map(own, gold)
            expected.append(found + kept)
    rollout = make_rollout(samples, texts, correct, well_formed)
    rewards = VLMR1(SCORES[score], scale=scale).on_reward(rollout, None, Record())
    assert rewards.flatten().tolist() == pytest.approx(expected, abs=1e-6)


def test_average_precision_by_hand():
    gold = [Box(0, 0, 10, 10), Box(50, 50, 10, 10)]
    far, hit, other = Box(90, 90, 5, 5), Box(0, 0, 10, 10), Box(50, 50, 10, 10)
    assert average_precision([hit, other], gold, 0.5) == 1
    assert average_precision([far, hit, other], gold, 0.5) == pytest.approx(2 / 3)  # 1/2 and 2/3, made monotone
    assert average_precision([hit, hit, other], gold, 0.5) == pytest.approx((1 + 2 / 3) / 2)  # the second finds none
    assert average_precision([far], gold, 0.5) == average_precision([], gold, 0.5) == 0


@pytest.mark.parametrize(
    ("text", "boxes"),
    [
        ("[1, 2, 3, 4]", [(1, 2, 2, 2)]),
        ('```json\n[{"bbox_2d": [8, 8, 28, 28.5], "label": "x"}]\n```', [(8, 8, 20, 20.5)]),
        ("[[8, 8, 28, 28], [0,0,1,1]]", [(8, 8, 20, 20), (0, 0, 1, 1)]),
        ("<think>[0, 0, 9, 9]</think><answer>[[-1,2,3,4]]</answer>", [(-1, 2, 4, 2)]),
        ("[3, 2, 1, 4] [1, 2, 3, 2] [1, 2, 3] [1, 2, 3, 4, 5] [a, b, c, d] [1e9, 2, 3, 4] (1, 2, 3, 4)", []),
        ("", []),
    ],
)
def test_boxes_are_read_from_text(text, boxes):
    assert [(b.x, b.y, b.w, b.h) for b in corner_boxes(text)] == boxes


@pytest.mark.parametrize(
    "text", ["[" * 200_000, "[1," * 70_000, "[" + " " * 200_000, "[1, 2, 3, 4]" * 20_000, "1" * 200_000]
)
def test_boxes_are_read_in_linear_time(text):
    start = time.monotonic()
    assert len(corner_boxes(text)) <= 100
    assert time.monotonic() - start < 20  # quadratic reading takes minutes


def test_gold_boxes_are_xywh_and_those_given_are_corners():
    sample = Sample("x", (PICTURE,), "q", "a", boxes=(Box(8, 16, 20, 24),))
    texts = [["[8, 16, 28, 40]", "[8, 16, 20, 24]"]]
    rollout = make_rollout([sample], texts, [[False, True]], [[False, False]])
    record = Record()
    assert VLMR1().on_reward(rollout, None, record).tolist() == [pytest.approx([1.0, 12 * 8 / 480])]
    assert record.scalars["vlm_r1/boxes"] == 1 and record.scalars["vlm_r1/no_box_rate"] == 0
    named = replace(rollout.prompts, samples=(replace(sample, boxes=(), bbox=sample.boxes[0]),))
    assert VLMR1().on_reward(replace(rollout, prompts=named), None, Record())[0, 0] == 1


def test_quarters_of_the_embedded_world():
    """A true claim's quarter holds the object, and no other does."""
    world, seen = World("val", 60, seed=2), 0
    for i in range(60):
        q, sample = world.question(i), world[i]
        for box in sample.boxes[:1]:
            given = quarters(f"{q.relevant[0].color} {q.relevant[0].shape} {corner_of(box)} . \\boxed{{1}}")
            assert 0.09 < iou(given, sample.boxes) < 0.2
            seen += 1
    assert seen > 30
    assert quarters(
        "no red circle top left . red circle . blue square bottom right . \\boxed{red circle top left}"
    ) == (Box(64, 64, 64, 64),)


def test_a_wrong_scale_is_named():
    with pytest.raises(UserError, match=r"callbacks.vlm_r1.scale=0 must be above 0, or null"):
        VLMR1(scale=0)
