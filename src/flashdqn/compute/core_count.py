"""How many cores there are, for modules that must not import PyTorch."""

from __future__ import annotations

import os

_processes = 1


def cores() -> int:
    """Cores that this process may use; ranks on one machine share them."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, found // _processes)


def share_cores(processes: int) -> None:
    """Let `processes` processes like this one share the cores."""
    global _processes
    _processes = max(1, processes)
