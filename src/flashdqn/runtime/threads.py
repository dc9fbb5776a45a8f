"""How many CPU threads: one for small work, by a rule; for large work `train.choose` tries one and all.

A choice by measurement can differ from run to run, and with it the rounding of sums: the same seed would no longer
give the same weights. So small work, for which threads gain little, is not tried. The rule errs towards one thread.
Threads that work together wait for one another by spinning, and where another program wants the core, waiting can
cost a hundred times the work (measured by benchmarks/threads.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numba
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from flashdqn.envs.contract import ObsSpec

#: Floating-point operations of one forward pass of a batch from which threads may pay.
PARALLEL_FLOPS = 200_000_000


@contextmanager
def threads(compute: int, kernels: int) -> Iterator[None]:
    """Use so many threads for PyTorch and for the games, and flush subnormals.

    Adam's moments decay into subnormal numbers, which are many times slower to compute with. That setting
    belongs to a thread and is inherited by those it starts, so it must come before the first parallel operation.
    """
    before = torch.get_num_threads(), numba.get_num_threads(), flushing()
    torch.set_flush_denormal(True)
    torch.set_num_threads(compute)
    numba.set_num_threads(min(kernels, numba.config.NUMBA_NUM_THREADS))
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        numba.set_num_threads(before[1])
        torch.set_flush_denormal(before[2])


def flushing() -> bool:
    """Whether this thread flushes subnormals now; PyTorch can set it but not say it."""
    return float(torch.tensor(1e-310, dtype=torch.float64) * 1.0) == 0.0


def compute_threads(network: nn.Module, obs_spec: ObsSpec, batch_size: int) -> int:
    """One for a small network; all cores, at most, for a large one."""
    obs = torch.zeros((1, *obs_spec.shape), dtype=obs_spec.dtype)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(obs)
    return cores() if counter.get_total_flops() * batch_size >= PARALLEL_FLOPS else 1


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
