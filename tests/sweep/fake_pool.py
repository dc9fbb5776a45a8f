"""Trials without processes: a twin of the pool, whose scores follow from the settings by a formula."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flashdqn.sweep.pool import TrialMessage, TrialTask


def score_by_lr(config: Mapping[str, Any], share: float) -> float:
    """Best at a learning rate of 1e-3; grows with training."""
    return 100.0 * share - 20.0 * abs(math.log10(config["learn"]["lr"]) + 3.0)


@dataclass
class FakePool:
    """Runs one message at a time: some evaluations, then an end."""

    jobs: int = 2
    score: Callable[[Mapping[str, Any], float], float] = score_by_lr
    fails: Callable[[int], str | None] = lambda count: None  # the reason why the n-th trial fails
    steps: int = 1000
    evaluations: int = 8
    started: list[TrialTask] = field(default_factory=list)
    evaluated: dict[str, int] = field(default_factory=dict)
    pruned: set[str] = field(default_factory=set)
    stopped: bool = False
    running: dict[str, TrialTask] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        return len(self.running) >= self.jobs

    @property
    def is_idle(self) -> bool:
        return not self.running

    def run(
        self,
        propose: Callable[[], None],
        handle: Callable[[TrialMessage], None],
        watch: Callable[[], bool],
    ) -> None:
        while not watch():
            propose()
            if self.is_idle:
                return
            if (message := self.receive(0)) is not None:
                handle(message)

    def start(self, task: TrialTask) -> None:
        self.started.append(task)
        self.running[task.name] = task
        self.evaluated[task.name] = 0

    def receive(self, seconds: float) -> TrialMessage | None:
        if not self.running:
            return None
        name, task = next(iter(self.running.items()))
        self.running[name] = self.running.pop(name)  # the others have their turn
        reason = self.fails(len(self.started))
        if reason is not None:
            del self.running[name]
            return TrialMessage(name, "failed", {"reason": reason})
        done = self.evaluated[name] = self.evaluated[name] + 1
        share = done / self.evaluations
        if name in self.pruned or done > self.evaluations:
            del self.running[name]
            share = min(1.0, (done - 1) / self.evaluations)
            return TrialMessage(name, "ended", self._make_end(task, share))
        data = {"step": int(share * self.steps), "seconds": share, "score": self.score(task.config, share)}
        return TrialMessage(name, "evaluation", data)

    def _make_end(self, task: TrialTask, share: float) -> dict[str, Any]:
        return {
            "run": str(task.folder / "run"),
            "finished": True,
            "stopped": "budget: steps",
            "steps": int(share * self.steps),
            "seconds": share,
            "score": self.score(task.config, share),
            "score_error": 0.1,
        }

    def answer(self, name: str, prune: bool) -> None:
        if prune:
            self.pruned.add(name)

    def find_late(self, patience: float) -> list[str]:
        return []

    def end_trial(self, name: str) -> None:
        self.running.pop(name, None)

    def stop_all(self) -> None:
        self.stopped = True
        self.running.clear()
