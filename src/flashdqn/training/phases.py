"""Where the time goes: seconds per phase.

On the CPU every phase is timed with the host's clock. On CUDA the host only queues work, so events are recorded
around the phases of every sixteenth iteration, and read for a report.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

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
        self._clocks: dict[str, _Clock] = {}
        self.inside_graph = False  # nothing is timed during capture: a replay would not run the timer

    def next_iteration(self) -> None:
        """Count an iteration of the loop."""
        self.iterations += 1

    def __call__(self, name: str, host: bool = False) -> AbstractContextManager[None]:
        """Time a block; `host=True` for work that waits for the device anyway."""
        if self.cuda and not host:
            return self._by_events(name)
        clock = self._clocks.get(name)
        if clock is None:
            clock = self._clocks[name] = _Clock(self.seconds, name)
        return clock

    @contextmanager
    def _by_events(self, name: str) -> Iterator[None]:
        if self.inside_graph:
            yield
        elif self.iterations % self.every == 0:
            first, last = make_timing_event(), make_timing_event()
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


class _Clock:
    """Times a block by the host's clock. Made once per phase, because it runs several times in every iteration."""

    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self.seconds, self.name, self.start = seconds, name, 0.0

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self.seconds[self.name] += time.perf_counter() - self.start


def make_timing_event() -> torch.cuda.Event:
    """An event that records its time."""
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call,unused-ignore]
