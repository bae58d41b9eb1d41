"""Models made without weights and shared out over two ranks hold what loading gives, to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from ranks import on_two_ranks
from safetensors.torch import load_file
from tiny_families import CASES, Qwen25, build
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

import mmcredit
from mmcredit.functional import rank
from mmcredit.models.load import export, frozen_copy, load_policy, reference
from mmcredit.models.shard import Sharding, whole_weights
from mmcredit.models.trainable import language, lora
from mmcredit.models.vlm import VisionLanguageModel
from mmcredit.types import UserError

NAMES = tuple(case.name for case in CASES)
QUICK = "qwen3_5_moe"  # whose checkpoints have one tensor an expert; the other families are slow tests
FAMILIES = [pytest.param(name, marks=() if name == QUICK else pytest.mark.slow) for name in NAMES]
TINY = str(Path(mmcredit.__file__).parent / "models" / "tiny_qwen3vl")
VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # of loading, of sharing out
    "bfloat16": ({"dtype": "bfloat16"}, {"compute": "float32"}),
    "lora": ({"train": partial(lora, r=4)}, {}),
    "frozen tower, offloaded": ({"train": language, "gradient_checkpointing": True}, {"offload_frozen": True}),
}


@dataclass(frozen=True)
class Found:
    """Of policy, and of the copies made of it before there were weights."""

    weights: list[dict[str, Tensor]]
    buffers: list[dict[str, Tensor]]
    trained: list[str]
    left: list[str]  # tensors without memory
    tied: bool
    share: float  # of the policy's weights on this rank
    loads: int


def found(models: list[VisionLanguageModel], loads: int = 1) -> Found:
    policy = models[0].hf
    tensors = {name: value for m in models for name, value in [*m.named_parameters(), *m.named_buffers()]}
    inside = {f"{name}.{key}": v for m in models for name, sub in m.named_modules() for key, v in vars(sub).items()}
    held_here = sum((p.to_local() if isinstance(p, DTensor) else p).numel() for p in policy.parameters())
    return Found(
        weights=[{name: weight.clone() for name, weight in whole_weights(m.hf)} for m in models],
        buffers=[{name: buffer.clone() for name, buffer in m.hf.named_buffers()} for m in models],
        trained=[name for name, p in policy.named_parameters() if p.requires_grad],
        left=[n for n, v in (tensors | inside).items() if isinstance(v, Tensor) and v.is_meta],
        tied=policy.get_output_embeddings().weight is policy.get_input_embeddings().weight,
        share=held_here / sum(p.numel() for p in policy.parameters()),
        loads=loads,
    )


def models_of(policy: VisionLanguageModel) -> list[VisionLanguageModel]:
    return [policy, *(m for m in (reference(policy), frozen_copy(policy)) if m.owner is m)]


def on_rank(folder: Path, names: Sequence[str], number: int) -> dict[str, Found]:
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (2,))
    results = {}
    for name in names:
        path = TINY if name in VARIANTS else str(folder / name)
        loading, sharing = VARIANTS.get(name, ({}, {}))
        calls: list[int] = []
        models = models_of(load_policy(path, **loading, empty=True))
        assert all(p.is_meta for m in models for p in m.parameters())
        Sharding(**sharing)(models, mesh, counted(partial(load_policy, path, **loading), calls))
        results[name] = found(models, len(calls))
        export(models[0], Unsaved(), folder / f"{name} exported")
    return results


class Unsaved:
    """A processor of which nothing is written."""

    def save_pretrained(self, folder: Path) -> None:
        pass


def counted(load: Callable[[], VisionLanguageModel], calls: list[int]) -> Callable[[], VisionLanguageModel]:
    def call() -> VisionLanguageModel:
        calls.append(rank())
        return load()

    return call


@pytest.fixture(scope="module")
def folder(processor, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    for case in CASES:
        build(case, processor.tokenizer).hf.save_pretrained(folder / case.name)
    return folder


@pytest.fixture(scope="module")
def quick(folder) -> list[dict[str, Found]]:
    return on_two_ranks(partial(on_rank, folder, (QUICK, *VARIANTS)), folder / "quick")


@pytest.fixture(scope="module")
def families(folder) -> list[dict[str, Found]]:
    return on_two_ranks(partial(on_rank, folder, [name for name in NAMES if name != QUICK]), folder / "slow")


@pytest.fixture
def ranks(request, name) -> list[dict[str, Found]]:
    return request.getfixturevalue("quick" if name in (QUICK, *VARIANTS) else "families")


@pytest.mark.parametrize("name", [*FAMILIES, *VARIANTS])
def test_every_rank_holds_its_parts_of_what_loading_gives(folder, ranks, name):
    path, loading = (str(folder / name), {}) if name in NAMES else (TINY, VARIANTS[name][0])
    one = found(models_of(load_policy(path, **loading)))
    for number in range(2):
        two = ranks[number][name]
        for key in ("weights", "buffers"):
            pairs = list(zip(getattr(one, key), getattr(two, key), strict=True))
            assert pairs and all(mine.keys() == other.keys() for mine, other in pairs)
            for mine, other in pairs:
                for tensor, value in mine.items():
                    assert other[tensor].dtype == value.dtype and torch.equal(other[tensor], value), tensor
        assert two.trained == one.trained and two.tied == one.tied and not two.left
        assert 0.45 < two.share < 0.55 and one.share == 1
        assert two.loads == (number == 0)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_export_is_that_of_a_loaded_model(folder, ranks, name):
    export(load_policy(str(folder / name)), Unsaved(), folder / f"{name} alone")
    for file in ("model.safetensors", "config.json", "generation_config.json"):
        assert (folder / f"{name} alone" / file).read_bytes() == (folder / f"{name} exported" / file).read_bytes(), file
    before, after = (load_policy(str(folder / part)).state_dict() for part in (name, f"{name} exported"))
    assert before.keys() == after.keys() and all(torch.equal(before[key], after[key]) for key in before)


def test_the_layout_of_the_quick_checkpoint_is_not_the_models(folder):
    """Loading and export have something to convert."""
    saved = load_file(folder / QUICK / "model.safetensors").keys()
    assert not saved <= load_policy(str(folder / QUICK), empty=True).hf.state_dict().keys()


def broken(number: int) -> list[str]:
    def load() -> VisionLanguageModel:
        raise OSError("no such\nfile")

    with pytest.raises(UserError) as caught:
        Sharding()([load_policy(TINY, empty=True)], init_device_mesh("cpu", (2,)), load)
    return [str(caught.value)]


def test_a_failure_of_the_first_rank_ends_all(tmp_path):
    for (reason,) in on_two_ranks(broken, tmp_path):
        assert reason == "the first rank cannot load the model: OSError: no such file"


def peak(folder: Path, number: int) -> float:
    """Largest memory while three models are made and shared out, over the size of one."""
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (2,))
    load = partial(load_policy, str(folder))
    size = sum(p.numel() * p.element_size() for p in load(empty=True).parameters())
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = resident("VmRSS")
    Sharding()(models_of(load(empty=True)), mesh, load)
    return (resident("VmHWM") - before) / size


def resident(line: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(text.split()[1]) * 1024 for text in lines if text.startswith(line))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux tells the peak")
def test_only_the_first_rank_ever_holds_the_whole_model(processor, tmp_path):
    """46 million bfloat16 weights, used in float32: three models of 184 MB, of which a rank holds a half each."""
    text = {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 32}
    model = Qwen25().model(processor.tokenizer, text, {"out_hidden_size": 512})
    model.to(torch.bfloat16).save_pretrained(tmp_path / "model")
    first, second = on_two_ranks(partial(peak, tmp_path / "model"), tmp_path)
    assert 1.5 < second < 1.9 and 2.2 < first < 2.9
