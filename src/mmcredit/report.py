"""``python -m mmcredit.report``: compare runs, or draw credit maps. See ``--help``."""

from __future__ import annotations

import sys

from mmcredit.launch import launch
from mmcredit.maps import maps, with_callbacks

if __name__ == "__main__":
    sys.argv[1:] = with_callbacks(sys.argv[2:])
    launch(maps, "maps")
