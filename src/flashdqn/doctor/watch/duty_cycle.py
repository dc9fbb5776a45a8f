"""Counting by turns: where it would cost a script too much, it rests, and rates come from the rest of the time."""

from __future__ import annotations

from math import ceil
from time import perf_counter
from types import ModuleType

from .costs import Costs, count_switchable_calls, measure_costs
from .counters import counters, first_step
from .torch_hooks import methods

MOST = 0.015
"""The part of the time that counting may cost, by its own measure; what it does to the caches comes on top."""
SHORTEST = 0.5
"""Seconds of a window that say something about the next."""


class Turns:
    """Switches the counting of tensors' methods and networks' calls off and on again, by what it costs."""

    def __init__(self) -> None:
        self.costs = Costs()
        self.resting = 0
        """Windows still to rest."""
        self.loads: list[float] = []
        """The part of each window that this counting took."""
        self._last = self._totals()
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
        now = self._totals()
        change = {name: now[name] - self._last[name] for name in now}
        self._last = now
        calls = count_switchable_calls(change["hooks"], change["vector_steps"], change["updates"])
        spent = calls * self.costs.method + change["layers"] * self.costs.layer
        load = spent / max(change["seconds"], 1e-3)
        self.loads.append(load)
        if not methods.tensor:
            return
        for on, counted in ((methods.counting, counters.counted), (methods.calling, counters.called)):
            for name in counted if on else ():
                # The start-up before the first step is no time of the training's.
                counted[name] += change[name] if name != "seconds" or self._training else 0.0
        if methods.counting:
            if load > MOST and change["seconds"] >= SHORTEST:
                self.resting = ceil(load / MOST)
                methods.wanted = False
        elif self.resting > 0:
            self.resting -= 1
            if not self.resting:
                methods.wanted = True
        if not change["vector_steps"] + change["updates"]:
            methods.settle()  # nothing in sight that would be a better moment
        self._training = bool(first_step)

    def _totals(self) -> dict[str, float]:
        return {
            "vector_steps": float(counters.vector_steps),
            "updates": float(counters.updates),
            "seconds": perf_counter(),
            "hooks": float(counters.hooks),
            "layers": float(counters.layers),
        }
