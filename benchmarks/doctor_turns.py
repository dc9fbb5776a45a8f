"""A script under the doctor's watch, which is on and off in turns; see doctor_cost.py.

    python benchmarks/doctor_turns.py PLAN OUT

It uses only the standard library: torch must not be loaded before the watch.
"""

from __future__ import annotations

import builtins
import importlib
import json
import runpy
import signal
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

WATCH = Path(__file__).parent.parent / "src" / "flashdqn" / "doctor" / "watch" / "__main__.py"
TURN = 0.2
"""Seconds that the watch is on, or off, before the next turn."""


class Turns:
    """The watch of this process, on and off in turns."""

    def __init__(self, entry: dict[str, Any]) -> None:
        entry["load"]()
        parts = ("script", "torch_hooks", "classes", "sampler")
        self.script, self.hooks, self.classes, self.sampler = (
            importlib.import_module(f"{entry['NAME']}.{part}") for part in parts
        )
        self.watch: Any = None
        self.on = True
        self.began = 0.0
        self.steps = 0
        self.times: dict[bool, list[float]] = {True: [], False: []}
        """Seconds per step of each turn."""
        self._kept: dict[str, Any] = {}
        self._noted = self.classes.StepNote.__call__
        self.classes.StepNote.__call__ = self._step()

    def _step(self) -> Any:
        turns = self

        def step(note: Any, original: Any, env: Any, args: Any, kwargs: Any) -> Any:
            now = perf_counter()
            if now - turns.began > TURN:
                turns._change(now)
            turns.steps += 1
            if turns.on:
                return turns._noted(note, original, env, args, kwargs)
            return original(env, *args, **kwargs)

        return step

    def _change(self, now: float) -> None:
        if self.began:
            self.times[self.on].append((now - self.began) / max(self.steps, 1))
            self.on = not self.on
            self._put_back() if self.on else self._put_away()
        self.began, self.steps = perf_counter(), 0

    def _put_away(self) -> None:
        torch, optimizer = sys.modules["torch"], sys.modules["torch.optim.optimizer"]
        hooks = optimizer._global_optimizer_pre_hooks, optimizer._global_optimizer_post_hooks
        methods = self.hooks.methods
        self._kept = {
            "hooks": [dict(table) for table in hooks],
            "backward": torch.Tensor.backward,
            "print": builtins.print,
            "counting": methods.counting,
            "settle": type(methods).settle,
        }
        self.watch.looks.over = True
        self.sampler.set_timer(signal.ITIMER_REAL, 0.0)
        for table in hooks:
            table.clear()
        torch.Tensor.backward = torch.Tensor.backward.__wrapped__
        builtins.print = builtins.print.__wrapped__
        methods.switch(on=False)
        type(methods).settle = lambda _: None

    def _put_back(self) -> None:
        torch, optimizer = sys.modules["torch"], sys.modules["torch.optim.optimizer"]
        hooks = optimizer._global_optimizer_pre_hooks, optimizer._global_optimizer_post_hooks
        methods = self.hooks.methods
        for table, content in zip(hooks, self._kept["hooks"], strict=True):
            table.update(content)
        torch.Tensor.backward, builtins.print = self._kept["backward"], self._kept["print"]
        type(methods).settle = self._kept["settle"]
        methods.switch(on=self._kept["counting"])
        looks = self.watch.looks
        looks.over, looks._last = False, perf_counter()
        looks._ask()

    def run(self, plan: str) -> dict[bool, list[float]]:
        """Run the script to its end, or for its time; returns the seconds per step of each turn."""
        turns, begin = self, self.script.ScriptWatch.begin

        def known(watch: Any) -> None:
            turns.watch = watch
            begin(watch)

        self.script.ScriptWatch.begin = known
        try:
            self.script.main(plan)
        except SystemExit as stop:
            if stop.code:
                raise
        return self.times


if __name__ == "__main__":
    plan, out = sys.argv[1:]
    found = Turns(runpy.run_path(str(WATCH))).run(plan)
    rows = {"on": found[True], "off": found[False]}
    Path(out).write_text(json.dumps(rows), encoding="utf-8")
