"""Why a GPU idles: two seconds of torch's own profiler, in deep mode.

The gaps between the GPU's kernels are sorted by their length: short ones are launches that come one by one, long
ones are the host doing something else. Copies are counted apart.
"""

from __future__ import annotations

import sys
from time import perf_counter
from typing import Any

from . import counters as tally
from .counters import catch_failures
from .rows import DeviceTime

AFTER = 4.0
"""Seconds of training before the profiler starts."""
LENGTH = 2.0
SHORT = 50e-6
"""A gap up to this long is the time to launch the next kernel; a longer one is other work of the host."""

Interval = tuple[float, float, bool]
"""Start, end, and whether it is a copy."""


class DeviceProfile:
    """Profiles the script once, on its own thread."""

    def __init__(self) -> None:
        self.profiler: Any = None
        self.result: DeviceTime | None = None
        self._began = 0.0
        self._done = False

    def is_due(self) -> bool:
        """Whether it is time to start, or to stop."""
        torch = sys.modules.get("torch")
        if (
            self._done
            or not tally.first_update
            or not getattr(getattr(torch, "cuda", None), "is_initialized", bool)()
        ):
            return False
        now = perf_counter()
        return (
            now - self._began > LENGTH
            if self.profiler is not None
            else now - tally.started - tally.first_update[0] > AFTER
        )

    @catch_failures
    def step(self, _: Any) -> None:
        """Start the profiler, or stop it and look at what it saw."""
        torch = sys.modules["torch"]
        if self.profiler is None:
            activities = [torch.profiler.ProfilerActivity.CUDA]
            self.profiler = torch.profiler.profile(activities=activities)
            self.profiler.__enter__()
            self._began = perf_counter()
            return
        self._done = True
        torch.cuda.synchronize()
        seconds = perf_counter() - self._began
        self.profiler.__exit__(None, None, None)
        self.result = explain_gaps(read_intervals(self.profiler), seconds)
        self.profiler = None


def read_intervals(profiler: Any) -> list[Interval]:
    """What ran on the GPU, in seconds."""
    found = []
    for event in profiler.events():
        if "cuda" in str(event.device_type).lower():
            span = event.time_range
            found.append((span.start * 1e-6, span.end * 1e-6, "memcpy" in event.name.lower()))
    return found


def explain_gaps(intervals: list[Interval], seconds: float) -> DeviceTime:
    """Seconds of computing, of copies, of short gaps (launches) and of long ones (the host)."""
    computing = copies = launches = host = 0.0
    reached: float | None = None
    for start, end, is_copy in sorted(intervals):
        if reached is not None and start > reached:
            gap = start - reached
            if gap <= SHORT:
                launches += gap
            else:
                host += gap
        begin = start if reached is None else max(start, reached)
        new = max(end - begin, 0.0)
        if is_copy:
            copies += new
        else:
            computing += new
        reached = end if reached is None else max(reached, end)
    seen = computing + copies + launches + host
    return DeviceTime(seconds, len(intervals), computing, copies, launches, host + max(seconds - seen, 0.0))
