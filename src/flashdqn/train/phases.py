"""Where the time goes: seconds per phase.

On the CPU every entry is timed with the host's clock. On CUDA the host only queues work,
so events are recorded around the phases of every sixteenth iteration, and read when a report asks.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import torch

SAMPLED = 16


class Phases:
    """Totals per phase since the last `read`."""

    def __init__(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._events: list[tuple[str, torch.cuda.Event, torch.cuda.Event]] = []
        self.iterations = 0
        self.every = SAMPLED  # iterations between two that are timed on CUDA
        self.inside_graph = False  # while a graph is captured nothing is timed: a replay would not know of it

    def next_iteration(self) -> None:
        """Called once per iteration of the loop."""
        self.iterations += 1

    @contextmanager
    def __call__(self, name: str, host: bool = False) -> Iterator[None]:
        """Time a block; `host=True` for work that waits for the device anyway."""
        if self.inside_graph:
            yield
        elif not self.cuda or host:
            start = time.perf_counter()
            yield
            self.seconds[name] += time.perf_counter() - start
        elif self.iterations % self.every == 0:
            first, last = timing_event(), timing_event()
            first.record()
            yield
            last.record()
            self._events.append((name, first, last))
        else:
            yield

    def read(self) -> dict[str, float]:
        """Seconds per phase since the last call."""
        for name, first, last in self._events:
            last.synchronize()
            self.seconds[name] += first.elapsed_time(last) / 1000 * self.every
        self._events.clear()
        seconds = dict(self.seconds)
        self.seconds.clear()
        return seconds


def timing_event() -> torch.cuda.Event:
    """An event that knows when it was reached."""
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call,unused-ignore]
