"""What fixtures and tests share: questions of the embedded world, and a template."""

from __future__ import annotations

from mmcredit.data.templates import Template
from mmcredit.data.world.source import World

WORLD = World("val", 64, seed=5)
TEMPLATE = Template("Think, then \\boxed{answer}.", r".*\\boxed\{[^{}]+\}")
