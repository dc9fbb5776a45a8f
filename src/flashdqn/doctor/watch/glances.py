"""Exact lines inside long operations.

A look comes only after an operation (see `segments.py`). Products, arithmetic on large arrays and most of torch let
other threads run meanwhile: a thread that wakes then, and gets its turn at once, sees the exact line. A glance that
has to wait for its turn saw nothing: the script was in Python, and the looks know better.
"""

from __future__ import annotations

import random
import sys
import threading
from time import perf_counter
from types import CodeType

from . import counters as tally
from .rows import Glance

EVERY = 0.02
AT_ONCE = 0.0001
"""Seconds of delay up to which a glance came in time."""


class Glances(threading.Thread):
    """Counts the lines at which the training thread was inside a long operation."""

    def __init__(self) -> None:
        super().__init__(name="doctor's glances", daemon=True)
        self.counts: dict[tuple[int, int], list[object]] = {}
        """By the code's id and the line: how often, and the code."""
        self.attempts = 0
        self.over = threading.Event()
        self._random = random.Random(1)  # never the script's own

    def run(self) -> None:
        """Glance about fifty times a second, once training has begun."""
        while True:
            pause = EVERY * (0.5 + self._random.random())
            due = perf_counter() + pause
            if self.over.wait(pause):
                return
            if tally.busy_thread[0]:
                self.glance(perf_counter() - due)

    def glance(self, late: float) -> None:
        """Note the line, if the turn came at once."""
        frame = sys._current_frames().get(tally.busy_thread[0])
        self.attempts += 1
        if frame is None or late > AT_ONCE:
            return
        key = id(frame.f_code), frame.f_lineno or 0
        entry = self.counts.setdefault(key, [0, frame.f_code])
        entry[0] += 1  # type: ignore[operator]

    def stop(self) -> None:
        """End the thread."""
        self.over.set()

    def describe(self) -> tuple[Glance, ...]:
        """The lines, for the record."""
        return tuple(
            Glance(code.co_filename, line, count)
            for (_, line), (count, code) in list(self.counts.items())
            if isinstance(code, CodeType) and isinstance(count, int)
        )
