"""How busy the machine is: all processes on the cores that this one may use."""

from __future__ import annotations

import os
from pathlib import Path

STAT = Path("/proc/stat")
THROTTLED = {"/sys/fs/cgroup/cpu.stat": 1e-6, "/sys/fs/cgroup/cpu/cpu.stat": 1e-9}
"""Where a container's quota is accounted for, and the unit, in the two versions of cgroups."""
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


def read_queued_seconds(thread: int) -> float:
    """Seconds in which a thread was ready to run and did not get a core; 0 where the system does not tell."""
    try:
        words = Path(f"/proc/self/task/{thread}/schedstat").read_text(encoding="ascii").split()
        return int(words[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def read_throttled_seconds() -> float:
    """Seconds in which the container had used up its CPU quota; 0 where there is none."""
    for path, unit in THROTTLED.items():
        try:
            lines = dict(line.split() for line in Path(path).read_text(encoding="ascii").splitlines())
            return next(int(value) * unit for key, value in lines.items() if key.startswith("throttled_"))
        except (OSError, ValueError, StopIteration):
            continue
    return 0.0
