"""Count only part of the time where counting costs too much; rates come from the time in which it was on."""

from __future__ import annotations

from math import ceil
from operator import sub
from time import perf_counter
from types import ModuleType
from typing import NamedTuple

from .costs import Costs, count_switchable_calls, measure_costs
from .counters import counters, first_step
from .torch_hooks import methods

MOST = 0.015
"""Share of the time that counting may cost, by its own estimate; its effect on the caches comes on top."""
SHORTEST = 0.5
"""A shorter window, in seconds, says nothing about the next."""


class CountingTotals(NamedTuple):
    """The numbers that decide about the next window: totals, or what a window added to them."""

    vector_steps: int
    updates: int
    seconds: float
    hooks: int
    layers: int


class Turns:
    """Switches the counting of tensors' methods and networks' calls off and on again, by what it costs."""

    def __init__(self) -> None:
        self.costs = Costs()
        self.resting = 0
        """For how many more windows counting rests."""
        self.loads: list[float] = []
        """The share of each window that this counting took."""
        self._last = read_totals()
        self._training = False
        self._calibrating = False

    def calibrate(self, torch: ModuleType) -> None:
        """Measure what counting costs, on calls like the script's."""
        self._calibrating = True  # what is counted meanwhile is not the script's, and will be forgotten
        try:
            self.costs = measure_costs(torch)
        finally:
            self._calibrating = False

    def take(self) -> None:
        """At the end of a window: add it up, and decide about the next."""
        if self._calibrating:
            self.loads.append(0.0)
            return
        now = read_totals()
        change = CountingTotals(*map(sub, now, self._last))
        self._last = now
        calls = count_switchable_calls(change.hooks, change.vector_steps, change.updates)
        spent = calls * self.costs.method + change.layers * self.costs.layer
        load = spent / max(change.seconds, 1e-3)
        self.loads.append(load)
        if not methods.tensor:
            return
        for on, counted in ((methods.counting, counters.counted), (methods.calling, counters.called)):
            if on:
                counted.vector_steps += change.vector_steps
                counted.updates += change.updates
                # The start-up before the first step does not belong to the training.
                counted.seconds += change.seconds if self._training else 0.0
        if methods.counting:
            if load > MOST and change.seconds >= SHORTEST:
                self.resting = ceil(load / MOST)
                methods.wanted = False
        elif self.resting > 0:
            self.resting -= 1
            if not self.resting:
                methods.wanted = True
        if not change.vector_steps + change.updates:
            methods.settle()  # no step or update is in sight: switch now
        self._training = bool(first_step)


def read_totals() -> CountingTotals:
    """The current totals."""
    return CountingTotals(
        counters.vector_steps, counters.updates, perf_counter(), counters.hooks, counters.layers
    )
