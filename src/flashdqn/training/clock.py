"""Where the time of a run went since its command began: every second belongs to exactly one part."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: The parts, in the order in which they come; summary.json has these names.
PARTS = (
    "start_up", "warm_up", "demonstrations", "first_data", "training", "evaluation", "checkpoints", "pages",
    "other",
)  # fmt: skip
#: More seconds in a file are damage.
MOST_SECONDS = 1e10


class RunClock:
    """Counts the seconds of each part, over all sessions of a run. Of nested parts only the inner one counts."""

    def __init__(self, began: float | None = None) -> None:
        """`began` is the command's beginning, by `time.perf_counter`; without it, that is now."""
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._part, self._since = "start_up", time.perf_counter() if began is None else began

    def switch_to(self, part: str) -> str:
        """Count for another part from now on; returns the one before."""
        before, now = self._part, time.perf_counter()
        self._seconds[before] += max(0.0, now - self._since)
        self._part, self._since = part, now
        return before

    @contextmanager
    def count_as(self, part: str) -> Iterator[None]:
        """Count what happens inside for a part."""
        before = self.switch_to(part)
        try:
            yield
        finally:
            self.switch_to(before)

    def end_start_up(self, warm_up: float) -> None:
        """The start is over; its last `warm_up` seconds were the warm-up."""
        self.switch_to("other")
        warm_up = min(warm_up, self._seconds["start_up"])
        self._seconds["start_up"] -= warm_up
        self._seconds["warm_up"] += warm_up

    def add_earlier(self, seconds: Mapping[str, float]) -> None:
        """Add the parts of earlier sessions."""
        for part, value in seconds.items():
            self._seconds[part] += value

    def read(self) -> dict[str, float]:
        """The seconds of each part so far."""
        self.switch_to(self._part)
        return dict(self._seconds)

    def measure(self, part: str) -> float:
        """The seconds of one part so far."""
        return self.read()[part]

    @property
    def total(self) -> float:
        """All seconds since the command began, and those of earlier sessions."""
        return sum(self.read().values())


def parse_parts(data: Any) -> dict[str, float]:
    """What a file says about the parts; empty if it cannot be believed."""
    if not isinstance(data, Mapping):
        return {}
    found = {part: data[part] for part in PARTS if part in data}
    return found if all(_is_duration(value) for value in found.values()) else {}


def find_earlier_parts(summary: Mapping[str, Any], counters: Mapping[str, Any]) -> dict[str, float]:
    """The parts of the sessions before a checkpoint. A session that ended there has written a summary, which also
    knows what came after its last checkpoint. Runs of earlier versions know only their training time."""
    if summary.get("steps") == counters.get("transitions") and (found := parse_parts(summary.get("time"))):
        return found
    return parse_parts(counters.get("time")) or parse_parts({"training": counters.get("seconds", 0.0)})


def measure_process_age() -> float:
    """Seconds since this process began; 0 where the system does not tell."""
    try:
        words = (
            Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        )
        began = int(words[19]) / os.sysconf("SC_CLK_TCK")
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - began
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
    # A sandbox may have another clock there: Python does not take minutes to begin.
    return age if 0 <= age < 600 else 0.0


def _is_duration(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= MOST_SECONDS
