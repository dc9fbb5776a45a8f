"""Counting by turns: where it would cost a script too much, it rests, and rates come from the rest of the time."""

from __future__ import annotations

from math import ceil
from time import perf_counter
from types import ModuleType
from typing import Any

from .tally import CODE, by_instruction, counters, first_step, local, sites
from .torch_hooks import methods

LAYERS = """
start = clock()
for _ in range(200):
    layer(tensor)
seconds = (clock() - start) / 200
"""
CALLS_FILE = "calibration"
CALLS = """
start = clock()
for _ in range(200):
    tensor.item()
seconds = (clock() - start) / 200
"""
MOST = 0.03
"""The part of the time that counting may cost."""


class Turns:
    """Switches the counting of tensors' methods off and on again, by what it costs."""

    def __init__(self) -> None:
        self.cost = 1e-6
        """Seconds that a call takes longer when it is counted."""
        self.layer_cost = 1e-6
        """Seconds that a layer within a network takes longer to call."""
        self.resting = 0
        """Windows still to rest."""
        self.loads: list[float] = []
        """The part of each window that counting took."""
        self._last = self._totals()
        self._training = False

    def calibrate(self, torch: ModuleType) -> None:
        """Measure what counting costs, on a call like the script's."""
        hooks = counters.hooks
        scope: dict[str, Any] = {"tensor": torch.zeros(1), "clock": perf_counter}
        code = compile(CALLS, CALLS_FILE, "exec")
        best = {True: 1.0, False: 1.0}
        for _ in range(8):
            for on in best:
                methods.switch(on=on)
                exec(code, scope)
                best[on] = min(best[on], scope["seconds"])
        methods.switch(on=True)
        self.cost = max(best[True] - best[False], 1e-7)
        self.layer_cost = cost_of_layer(torch)
        counters.hooks = hooks
        for known in (sites, by_instruction):
            for key in [key for key, entry in known.items() if entry[CODE].co_filename == CALLS_FILE]:
                del known[key]

    def take(self) -> None:
        """At the end of a window: add it up, and decide about the next."""
        now = self._totals()
        change = {name: now[name] - self._last[name] for name in now}
        self._last = now
        load = change["hooks"] * self.cost / max(change["seconds"], 1e-3)
        self.loads.append(load)
        if not methods.tensor:
            return
        if methods.counting:
            for name in counters.counted:
                # The start-up before the first step is no time of the training's.
                counters.counted[name] += change[name] if name != "seconds" or self._training else 0.0
            if load > MOST:
                self.resting = ceil(load / MOST)
                methods.switch(on=False)
        elif self.resting > 0:
            self.resting -= 1
            if not self.resting:
                methods.switch(on=True)
        self._training = bool(first_step)

    def _totals(self) -> dict[str, float]:
        return {
            "vector_steps": float(counters.vector_steps),
            "updates": float(counters.updates),
            "seconds": perf_counter(),
            "hooks": float(counters.hooks),
        }


def cost_of_layer(torch: ModuleType) -> float:
    """What the stand-in for a network's call costs, where it only passes a layer's call on."""
    module, stand_in = torch.nn.Module, torch.nn.Module.__call__
    scope: dict[str, Any] = {"layer": torch.nn.Identity(), "tensor": torch.zeros(1), "clock": perf_counter}
    code = compile(LAYERS, CALLS_FILE, "exec")
    best = {True: 1.0, False: 1.0}
    local.in_module = 1
    try:
        for _ in range(8):
            for on in best:
                module.__call__ = stand_in if on else stand_in.__wrapped__
                exec(code, scope)
                best[on] = min(best[on], scope["seconds"])
    finally:
        module.__call__ = stand_in
        local.in_module = 0
    return max(best[True] - best[False], 0.0)
