"""What a cure needs to know from a record: which lines build graphs for nothing, how many threads are best."""

from __future__ import annotations

import re
from pathlib import Path

from flashdqn.doctor.report.contents import Finding
from flashdqn.doctor.watch.kinds import Phase
from flashdqn.doctor.watch.schema import WatchRecord

OFTEN = 100
"""Calls of a network; fewer say little about a line."""


def find_wasted_places(record: WatchRecord) -> list[tuple[str, int]]:
    """The lines whose networks act or compute targets, and build graphs for gradients that nobody needs."""
    return [
        (site.file, site.line)
        for site in record.forwards
        if site.count >= OFTEN
        and site.graded > 0.5 * site.count
        and (site.role is Phase.ACTING or not site.trained)
    ]


def find_main_file(record: WatchRecord) -> str:
    """The script's own file; of a module that was run with -m, the outermost file on the stacks."""
    if Path(record.script).is_file():
        return record.script
    outermost = (record.frames[stack[i]] for stack in record.stacks for i in range(len(stack)))
    return next((frame.file for frame in outermost if not frame.plumbing), record.script)


def read_best_threads(finding: Finding) -> int:
    """The number of threads that was the fastest, from the finding's own title: `… that is faster with 1`."""
    found = re.search(r"faster with (\d+)", finding.title)
    return int(found[1]) if found else 1
