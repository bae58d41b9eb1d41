"""``python -m mmcredit.report``: compare runs, or draw credit maps. See ``--help``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from mmcredit.types import UserError

DESCRIPTION = """Compare runs of mmcredit.fit: learning curves, final metrics with intervals over seeds, time, extra
passes, statistics of the methods, and which runs cannot be compared. Writes report.html, report.md and curves.svg.

  python -m mmcredit.fit -m experiment=world_pacg 'callbacks=[],[vppo],[pacg]' seed=0,1,2
                                                        nine runs, in runs/<date>/<time>-sweep
  python -m mmcredit.report runs/<date>/<time>-sweep    what they show

  python -m mmcredit.report maps --help                                 credit maps: methods on the same responses"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        "python -m mmcredit.report", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("runs", nargs="+", type=Path, help="run folders, or folders that hold some: a sweep's, a day's")
    made.add_argument("--out", type=Path, help="folder of the report (default: report/ in the first folder given)")
    made.add_argument("--baseline", help="arm that the others are compared with (default: the one without methods)")
    made.add_argument("--curves", nargs="+", metavar="KEY", help="logged keys to draw (docs/metrics.md)")
    return made


def report(arguments: Sequence[str]) -> Path:
    """Reads the runs and writes the report; returns the page's path.

    Raises:
        UserError: no run could be read.
    """
    from mmcredit.reporting.arms import arms
    from mmcredit.reporting.comparison import compare
    from mmcredit.reporting.comparison_pages import write_report
    from mmcredit.reporting.curves import SHOWN
    from mmcredit.reporting.runs import find_runs, load_run

    given, runs, left_out = parser().parse_args(arguments), [], list[str]()
    for path in find_runs(given.runs):
        try:
            runs.append(load_run(path))
        except UserError as problem:
            left_out.append(f"left out: {problem}")
            print(left_out[-1], file=sys.stderr)
    if not runs:
        raise UserError(f"none of {len(left_out)} runs could be read")
    found, doubles = arms(runs)
    compared = compare(found, given.baseline, [*left_out, *doubles])
    page = write_report(compared, given.curves or SHOWN, given.out or given.runs[0] / "report")
    for warning in compared.warnings:
        print(f"not comparable: {warning}", file=sys.stderr)
    print(f"{len(runs)} runs, {len(found)} arms: {page}")
    return page


def main(arguments: list[str]) -> int | str | None:
    """Runs the command; the exit status."""
    try:
        if arguments[:1] == ["maps"]:
            from mmcredit.launch import launch
            from mmcredit.maps import maps, with_callbacks

            sys.argv[1:] = with_callbacks(arguments[1:])
            launch(maps, "maps")
        else:
            report(arguments)
    except UserError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
