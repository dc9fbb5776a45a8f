"""Breaks by a trained agent, on a landscape of any size.

Several breaks are taken per forward pass, in the order of their gain per cost. Their values depend on one another
only nearby: so breaks of one pass lie apart, and what is between them is decided in later passes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flashdqn.planning.agent_values import GainMap, NetworkValues
from flashdqn.planning.ground import Ground, Progress
from flashdqn.planning.plan import Plan
from flashdqn.planning.purse import Purse, take_best
from flashdqn.planning.rules import choose_batch

#: Smaller windows would mostly be halo.
LEAST_WINDOW = 64
#: No pass takes more than one in so many of a plan's breaks, whatever they gain.
PASSES = 60
#: The halo of a window, as a share of its side.
HALO = 0.2


@dataclass(frozen=True)
class AgentSettings:
    """How an agent plans; benchmarks/plan_at_once.py and plan_large.py measured the defaults."""

    at_once: float = 16.0
    """Breaks of one forward pass for every 2,500 cells of the landscape, at most; 0: one."""
    at_least: float = 2.0
    """Breaks of one forward pass for every 2,500 cells, whatever they gain: of a plan that takes many passes."""
    apart: int = 8
    """Breaks of one pass are at least this many rows or columns apart."""
    almost: float = 0.7
    """Further breaks of one pass gain at least this share of what the best one gains per cost."""
    whole: int = 128
    """Landscapes of at most this many cells a side go through the network as a whole."""
    window: int = 0
    """Cells a side of the windows of larger landscapes; 0: as the network was trained, and at least 64."""
    halo: int = 0
    """Cells around a window's core that the network only sees; 0: a fifth of the window."""
    seconds: float = 900.0
    """If planning would take longer, more breaks are taken per pass."""


def plan_by_agent(
    values: NetworkValues,
    ground: Ground,
    budget: float,
    settings: AgentSettings | None = None,
    progress: Progress | None = None,
) -> Plan:
    """The plan of a network."""
    how = settings or AgentSettings()
    started = time.perf_counter()
    purse = Purse(ground, budget)
    gains = GainMap(ground, values, *choose_window(ground, values, how))
    most = max(1, round(how.at_once * ground.cells / 2500))
    least = min(most, round(how.at_least * ground.cells / 2500), purse.count_remaining() // PASSES)
    needed, hurried, passes = 1, 1, 0
    while not purse.empty:
        begun = time.perf_counter()
        tell = None if progress is None else _tell_pass(progress, purse)
        score = gains.update(ground.allowed & ~purse.free, purse.free, purse.share_left(), tell)
        placed = take_best(
            purse, score, max(most, needed), how.apart, almost=how.almost, at_least=max(least, needed)
        )
        gains.note_breaks(placed)
        passes += 1
        now = time.perf_counter()
        if passes > 1:  # the first pass takes longer than all others
            needed = max(1, choose_batch(purse, now - begun, how.seconds - (now - started)))
            hurried = max(hurried, needed)
        if progress is not None:
            progress(1.0 - max(0.0, purse.left) / purse.budget, f"{len(purse.order):,} breaks")
    notes = [f"{len(gains.windows):,} windows"] if len(gains.windows) > 1 else []
    if hurried > 1:
        notes.append(f"up to {hurried:,} breaks a pass, to end in time")
    order = np.array(purse.order, dtype=np.int64)
    return Plan("agent", order, time.perf_counter() - started, "; ".join(notes))


def _tell_pass(progress: Progress, purse: Purse) -> Callable[[float], None]:
    """How far one pass is: on a large landscape it takes many seconds."""
    count, spent = len(purse.order), 1.0 - max(0.0, purse.left) / purse.budget
    words = f"{count:,} breaks, values of the next" if count else "values of the first break"
    return lambda share: progress(spent, f"{words}, {min(1.0, share):.0%}")


def choose_window(ground: Ground, values: NetworkValues, how: AgentSettings) -> tuple[int, int]:
    """The size of the windows and of their halo; a small landscape is one window."""
    longest = max(ground.problem.landscape.shape)
    if longest <= how.whole:
        return longest, 0
    size = how.window or max(values.trained_size, LEAST_WINDOW)
    return size, min(how.halo or round(HALO * size), (size - 1) // 3)
