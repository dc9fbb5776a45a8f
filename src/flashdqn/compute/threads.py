"""How many CPU threads: one for small work, by a rule; for large work `training.autotune` tries one and all.

The hand-written updates compute the same with any number of threads; there a `Team` measures while it works.
With PyTorch's operations, a choice by measurement can differ from run to run, and so can the rounding of sums: the
same seed would no longer give the same weights. So no trial is made for small work, which gains little from
threads. When in doubt, the rule chooses one thread.
Threads that work together wait for each other by spinning. Where another program wants the core, waiting can
cost a hundred times the work (measured by benchmarks/threads.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numba
import torch

from flashdqn.compute.core_count import cores

#: With this many floating-point operations in one forward pass of a batch, threads may pay off.
PARALLEL_FLOPS = 200_000_000

#: A team tries every size `TRIES` times, then keeps the best one for `KEPT` calls. If the same size wins again, it
#: is kept twice as long, up to `LONGEST` calls: where another program wants the cores, a trial is expensive.
TRIES, KEPT, LONGEST = 5, 500, 16_000


class Team:
    """Chooses how many threads share a piece of work that repeats, whatever else the machine is doing.

    Two cores may be two, or one if another program uses the other, or two halves of one; and that changes. Usage:
    `threads = team.start()`, the work, `team.stop(amount)`.
    """

    def __init__(self, *sizes: int) -> None:
        self.sizes = sizes
        self.size = sizes[0]
        self._call, self._kept, self._best = 0, KEPT, 0
        self._times: dict[int, list[float]] = {size: [] for size in sizes}
        self._started = 0.0

    @property
    def most(self) -> int:
        """The largest size."""
        return max(self.sizes)

    def start(self) -> int:
        """The number of threads to use this time."""
        self._started = time.perf_counter()
        if self._call < TRIES * len(self.sizes):
            self.size = self.sizes[self._call % len(self.sizes)]
        return self.size

    def stop(self, amount: float = 1.0) -> None:
        """Report that `amount` of work was done since `start`."""
        if len(self.sizes) == 1:
            return
        trials = TRIES * len(self.sizes)
        if self._call < trials:
            self._times[self.size].append((time.perf_counter() - self._started) / amount)
        self._call += 1
        if self._call == trials:
            self.size = min(self.sizes, key=lambda size: sorted(self._times[size])[TRIES // 2])
            self._kept = min(2 * self._kept, LONGEST) if self.size == self._best else KEPT
            self._best = self.size
        elif self._call == trials + self._kept:
            self._call = 0
            self._times = {size: [] for size in self.sizes}


@contextmanager
def limit_threads(compute: int, kernels: int) -> Iterator[None]:
    """Use `compute` threads for PyTorch and `kernels` threads for the games, and flush subnormals.

    Adam's moments decay into subnormal numbers, which are many times slower to compute with. That setting
    belongs to a thread, and the threads it starts inherit it: set it before the first parallel operation.
    """
    before = torch.get_num_threads(), numba.get_num_threads(), flushes_subnormals()
    torch.set_flush_denormal(True)
    torch.set_num_threads(min(compute, most_threads()))
    numba.set_num_threads(min(kernels, numba.config.NUMBA_NUM_THREADS))
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        numba.set_num_threads(before[1])
        torch.set_flush_denormal(before[2])


def flushes_subnormals() -> bool:
    """Whether this thread flushes subnormals now; PyTorch can set this but cannot report it."""
    return float(torch.tensor(1e-310, dtype=torch.float64) * 1.0) == 0.0


def threads_for_flops(flops: int) -> int:
    """One for little work; up to all cores for a lot of it. `flops`: of a batch's forward pass."""
    return cores() if flops >= PARALLEL_FLOPS else 1


def make_team(asked: int) -> Team:
    """A team of `asked` threads; with 0 it tries one and all, and keeps the faster."""
    if asked or cores() == 1:
        return Team(min(asked or 1, most_threads()))
    return Team(1, cores())


def most_threads() -> int:
    """More threads than this never help, and may not be there to start: a run that used them elsewhere goes on here
    with fewer."""
    return max(64, 4 * cores())
