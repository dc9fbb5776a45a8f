"""A thread that closes a window about once a second: what was counted in it, and the memory at its end."""

from __future__ import annotations

import resource
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time, thread_time

from . import counters as tally
from .machine import CoreMeter, read_queued_seconds, read_throttled_seconds
from .rows import PartFailure, WatchWindow, WindowCounts
from .sampler import Looks

STATM = Path("/proc/self/statm")


class Clerk(threading.Thread):
    """Closes a window about once a second: what was counted in it, and the memory at its end."""

    def __init__(self, looks: Looks, window: float, chores: list[Callable[[], None]]) -> None:
        super().__init__(name="doctor", daemon=True)
        self.looks = looks
        self.length = window
        self.chores = chores
        """Called at each window's end, on this thread."""
        self.windows: list[WatchWindow] = []
        self.failures: list[PartFailure] = []
        self.seconds = 0.0
        self.over = threading.Event()
        self.cores = CoreMeter()
        self._opened = perf_counter()
        self._before = read_counter_totals()

    def run(self) -> None:
        """Close window after window, until stopped."""
        while not self.wait():
            self.close()
            self.do_chores()
            self.seconds = thread_time()
        self.close()

    def wait(self) -> bool:
        """Wait until the window is over, or until training or learning begins, which starts a new window."""
        began = count_beginnings()
        end = perf_counter() + self.length
        while (left := end - perf_counter()) > 0 and not self.over.wait(
            left if began == 2 else min(left, 0.05)
        ):
            if count_beginnings() != began:
                break
        return self.over.is_set()

    def close(self) -> None:
        """Add the finished window to the list."""
        now, after = perf_counter(), read_counter_totals()
        samples, self.looks.samples = self.looks.samples, {}
        self.windows.append(
            WatchWindow(
                start=self._opened - tally.started,
                seconds=now - self._opened,
                samples=samples,
                memory=read_resident_memory(),
                device_memory=read_device_memory(),
                counts=subtract_counts(after, self._before),
                machine=self.cores.read_change(),
            )
        )
        self._opened, self._before = now, after

    def do_chores(self) -> None:
        """Do all chores; one that fails is dropped, and watching goes on without it."""
        for chore in list(self.chores):
            try:
                chore()
            except Exception as error:
                self.chores.remove(chore)
                self.failures.append(tally.describe_failure(chore.__qualname__, error))

    def stop(self) -> None:
        """End the thread, which closes the last window."""
        self.over.set()
        if threading.current_thread() is not self:
            self.join(2.0)


def count_beginnings() -> int:
    """How much has begun: training, then learning."""
    return bool(tally.first_step) + bool(tally.first_update)


def read_counter_totals() -> WindowCounts:
    """The current totals."""
    now = tally.frozen[0] if tally.frozen else tally.counters
    return WindowCounts(
        transitions=now.transitions,
        vector_steps=now.vector_steps,
        episodes=now.episodes,
        episode_steps=now.episode_steps,
        updates=now.updates,
        cpu=process_time(),
        queued=read_queued_seconds(tally.busy_native[0]) if tally.busy_native[0] else 0.0,
        throttled=read_throttled_seconds(),
    )


def subtract_counts(after: WindowCounts, before: WindowCounts) -> WindowCounts:
    """What was added between two readings."""
    return WindowCounts(**{name: value - getattr(before, name) for name, value in vars(after).items()})


def read_resident_memory() -> int:
    """Bytes of resident memory; the peak where the system does not tell the current size."""
    try:
        return int(STATM.read_text(encoding="ascii").split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def read_device_memory() -> int:
    """Bytes that torch's tensors hold on the GPU: a number that the host knows without asking the GPU."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    try:
        return int(cuda.memory_allocated()) if cuda is not None and cuda.is_initialized() else 0
    except (AttributeError, RuntimeError):
        return 0
