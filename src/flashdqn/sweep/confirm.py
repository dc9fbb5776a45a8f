"""What a sweep may claim: the winner and the untouched preset, trained again on fresh seeds, equally long."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flashdqn.config import Config
from flashdqn.config.settings import to_dict
from flashdqn.core.ranges import SEEDS
from flashdqn.core.signals import Interrupt
from flashdqn.show.intervals import T95, mean_with_interval
from flashdqn.sweep.budget import SweepClock, find_patience
from flashdqn.sweep.folder import SweepFolder, SweepPlan
from flashdqn.sweep.pool import TrialMessage, TrialTask
from flashdqn.sweep.results import TrialResult
from flashdqn.sweep.search import Pool, is_number

WINNER, PRESET = "winner", "preset"


@dataclass(frozen=True)
class Claim:
    """Two groups of runs on the same seeds, and the difference of their means with its 95 % interval."""

    winner: tuple[float, ...]
    preset: tuple[float, ...]

    @property
    def winner_mean(self) -> tuple[float, float]:
        """The mean, and half of its interval."""
        return mean_with_interval(self.winner)

    @property
    def preset_mean(self) -> tuple[float, float]:
        """The mean, and half of its interval."""
        return mean_with_interval(self.preset)

    @property
    def gain(self) -> tuple[float, float]:
        """By how much the winner is better, and half of the interval (Welch)."""
        return compare_means(self.winner, self.preset)

    @property
    def verdict(self) -> str:
        """What may be said."""
        gain, half = self.gain
        if not math.isfinite(half):
            return "there are too few runs to say whether it is better"
        if gain - half > 0:
            return "it is better"
        return "it is worse" if gain + half < 0 else "that may be chance"


def compare_means(ones: Sequence[float], others: Sequence[float]) -> tuple[float, float]:
    """The difference of two means, and half of its 95 % interval by Welch's t; NaN with fewer than two values."""
    if not ones or not others:
        return math.nan, math.nan
    gain = sum(ones) / len(ones) - sum(others) / len(others)
    if min(len(ones), len(others)) < 2:
        return gain, math.nan
    parts = [_find_mean_variance(values) for values in (ones, others)]
    total = sum(parts)
    if total == 0:
        return gain, 0.0
    sizes = (len(ones), len(others))
    shares = [part / total for part in parts]
    degrees = 1 / sum(share**2 / (size - 1) for share, size in zip(shares, sizes, strict=True))
    return gain, T95[max(1, min(int(degrees), len(T95))) - 1] * math.sqrt(total)


def _find_mean_variance(values: Sequence[float]) -> float:
    """The variance of a mean."""
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)


def read_claim(data: Mapping[str, Any]) -> Claim | None:
    """The claim in confirm.json; None if there is none yet."""
    groups = {name: collect_scores(data.get("runs"), name) for name in (WINNER, PRESET)}
    return Claim(groups[WINNER], groups[PRESET]) if all(groups.values()) else None


def collect_scores(runs: Any, who: str) -> tuple[float, ...]:
    """The scores of a group, by seed."""
    found = runs.items() if isinstance(runs, Mapping) else ()
    mine = [one for name, one in found if name.startswith(f"{who}-") and isinstance(one, Mapping)]
    return tuple(float(one["score"]) for one in mine if is_number(one.get("score")))


def list_fresh_seeds(seed: int, count: int) -> list[int]:
    """Seeds that no trial has used: all of them have the sweep's own."""
    least, most = SEEDS
    return [least + (seed + 1 + k - least) % (most - least + 1) for k in range(count)]


def make_confirming_tasks(
    plan: SweepPlan, folder: SweepFolder, winner: TrialResult, done: Mapping[str, Any]
) -> list[TrialTask]:
    """The runs that are still to do. Seeds alternate between the two, so that both see the same machine."""
    base: dict[str, Config] = {WINNER: plan.space.apply(plan.base, winner.values), PRESET: plan.base}
    tasks = []
    for seed in list_fresh_seeds(plan.base.seed, plan.seeds):
        for who, config in base.items():
            name = f"{who}-{seed}"
            if name not in done:
                home = folder.confirm / name
                changed = dataclasses.replace(config, seed=seed, out=str(home))
                tasks.append(TrialTask(name, json.loads(json.dumps(to_dict(changed))), home))
    return tasks


class Confirmation:
    """The runs on fresh seeds, some at a time; what is done stays done when the sweep is resumed."""

    def __init__(
        self, plan: SweepPlan, folder: SweepFolder, pool: Pool, clock: SweepClock, winner: TrialResult
    ) -> None:
        self.plan, self.folder, self.pool, self.clock, self.winner = plan, folder, pool, clock, winner
        self.data = folder.read_confirmations()
        if self.data.get("trial") != winner.number or not isinstance(self.data.get("runs"), dict):
            self.data = {"trial": winner.number, "runs": {}}  # another one has won since
        self.runs: dict[str, Any] = self.data["runs"]
        self.total = 2 * plan.seeds
        self.began: dict[str, float] = {}

    def run(self, interrupt: Interrupt, display: Any) -> bool:
        """Train them all (True), or until a signal asks to stop (False)."""
        waiting = make_confirming_tasks(self.plan, self.folder, self.winner, self.runs)

        def propose() -> None:
            while waiting and not self.pool.is_full:
                task = waiting.pop(0)
                self.began[task.name] = time.monotonic()
                self.pool.start(task)

        def watch() -> bool:
            display.show_confirmation(self)
            for name in self.pool.find_late(find_patience(self.plan.base)):
                self.pool.end_trial(name)
                self.keep(name, {"reason": "it did not end in time, and was ended"}, display)
            return interrupt.requested

        self.pool.run(propose, lambda message: self.handle(message, display), watch)
        if not interrupt.requested:
            return True
        self.pool.stop_all()
        return False

    def handle(self, message: TrialMessage, display: Any) -> None:
        """Let a run go on after an evaluation, or keep how it ended."""
        if message.event == "evaluation":
            self.pool.answer(message.name, prune=False)
        elif message.event == "ended" and message.data.get("finished"):
            kept = ("run", "score", "score_error", "seconds", "steps")
            self.keep(message.name, {key: message.data.get(key) for key in kept}, display)
        else:
            reason = message.data.get("reason") or message.data.get("stopped")
            self.keep(message.name, {"reason": str(reason)}, display)

    def keep(self, name: str, data: Mapping[str, Any], display: Any) -> None:
        """Write down how a run ended."""
        self.runs[name] = dict(data)
        self.clock.took.append(time.monotonic() - self.began.pop(name, time.monotonic()))
        self.folder.write_confirmations(self.data)
        display.end_confirmation(name, data, self)
