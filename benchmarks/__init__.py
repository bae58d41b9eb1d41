"""Measurements of the training step on one CPU thread: ``python -m benchmarks.step``.

The settings of the process come first: they only work before torch is imported.
"""

import os
import sys

os.environ["OMP_NUM_THREADS"] = "1"  # two threads on two busy cores are 30 times slower
if not {"benchmarks.gpu_check", "benchmarks.gpu_vllm_ranks"} & set(sys.orig_argv):
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
