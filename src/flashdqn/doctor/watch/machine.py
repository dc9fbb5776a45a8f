"""How busy the machine is: all processes on the cores that this one may use."""

from __future__ import annotations

import os
from pathlib import Path

STAT = Path("/proc/stat")
IDLE = (3, 4)
"""The columns of a core's line that are not work: idle, and waiting for a disk."""


class CoreMeter:
    """Reads how long the cores of this process were busy since it last read."""

    def __init__(self) -> None:
        self._before = read_busy_seconds()

    def read_change(self) -> float | None:
        """Seconds of work on all cores since the last reading; None where the system does not tell."""
        before, self._before = self._before, read_busy_seconds()
        return None if before is None or self._before is None else max(self._before - before, 0.0)


def read_busy_seconds() -> float | None:
    """Seconds of work that the cores of this process have done for anybody, since the machine started."""
    try:
        lines = STAT.read_text(encoding="ascii").splitlines()
        mine = {f"cpu{core}" for core in os.sched_getaffinity(0)}
        ticks = os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError):
        return None
    rows = [line.split() for line in lines if line.split(None, 1)[0] in mine]
    columns = [[int(value) for value in row[1:9]] for row in rows]  # guests are part of the first two
    return sum(sum(row) - sum(row[i] for i in IDLE) for row in columns) / ticks if columns else None
