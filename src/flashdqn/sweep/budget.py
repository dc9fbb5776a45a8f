"""The time of a sweep: what one trial may take, and what is left for the search."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from flashdqn.config import Config
from flashdqn.core.errors import ConfigError

#: Of a trial's share of the time, this part is training; the rest is for its start and its last evaluation.
TRAINING_SHARE = 0.8
#: A shorter training says nothing.
SHORTEST_TRIAL = 2.0
#: A trial that takes longer than so many times its training, and these seconds more, hangs.
PATIENCE, PATIENCE_SECONDS = 3.0, 300.0
#: How many of a preset's evaluations there should be in a trial that is counted in steps.
EVALUATIONS = 20


def share_budget(base: Config, budget: float | None, trials: int, seeds: int, jobs: int) -> Config:
    """The base with the budget of one trial: its own, if the user has given one; else its share of the sweep's."""
    if budget is None or has_time_limit(base):
        return base
    rounds = math.ceil(trials / jobs) + math.ceil(2 * seeds / jobs)
    seconds = TRAINING_SHARE * budget / rounds
    if seconds < SHORTEST_TRIAL:
        raise ConfigError(
            f"--budget {budget:g}s for {trials} trials and {2 * seeds} confirming runs, {jobs} at a time, leaves "
            f"{seconds:.1f} s of training for each: give a longer --budget, or fewer --trials."
        )
    return replace(base, steps=None, episodes=None, max_time=round(seconds, 2))


def has_time_limit(base: Config) -> bool:
    """Whether one trial has a limit in seconds."""
    return base.max_time is not None


def find_patience(base: Config) -> float:
    """Seconds after which a trial is taken to hang; without a limit in seconds, never."""
    return math.inf if base.max_time is None else PATIENCE * base.max_time + PATIENCE_SECONDS


@dataclass
class SweepClock:
    """Wall-clock seconds of a sweep, over all its sessions."""

    budget: float | None
    jobs: int
    earlier: float = 0.0
    now: Callable[[], float] = time.monotonic
    took: list[float] = field(default_factory=list)  # seconds of each trial that has ended

    def __post_init__(self) -> None:
        self._began = self.now()

    @property
    def used(self) -> float:
        """Seconds so far."""
        return self.earlier + self.now() - self._began

    @property
    def left(self) -> float:
        """Seconds left of the whole budget."""
        return math.inf if self.budget is None else self.budget - self.used

    def is_search_over(self, confirmations: int) -> bool:
        """Whether the rest of the time is needed to confirm what was found."""
        return self.left <= self.estimate(confirmations)

    def estimate(self, runs: int) -> float:
        """Seconds that so many runs will take, by those that have ended; 0 while none has."""
        return math.ceil(runs / self.jobs) * (sum(self.took) / len(self.took)) if self.took else 0.0

    def estimate_left(self, trials: int, confirmations: int) -> float:
        """Seconds until the sweep is over; infinite if that cannot be known yet."""
        if not self.took:
            return self.left
        return min(self.left, self.estimate(trials) + self.estimate(confirmations))


def compute_share(base: Config, step: int, seconds: float) -> float:
    """The share of a trial's budget that is done, 0 … 1, by the first limit."""
    parts = ((step, base.steps), (seconds, base.max_time))
    return min(1.0, max((done / limit for done, limit in parts if limit), default=0.0))


def prepare_base(base: Config, threads: int, given: Sequence[str]) -> Config:
    """What all trials have in common besides the user's settings. Evaluations come as often as a tenth of the time
    allows; nothing is drawn or kept that only a single run needs."""
    every = base.eval.every
    if "eval.every" not in given:
        limit = base.report_every if base.steps is None else max(base.envs, base.steps // EVALUATIONS)
        every = min(every, limit) if every else limit
    report = base.log.every
    if "log.every" not in given:
        report = min(base.report_every, every)
    log = replace(
        base.log, every=report, tensorboard=False, game=False, checkpoint_every=0, checkpoint_minutes=0.0
    )
    runtime = replace(base.runtime, threads=base.runtime.threads or threads)
    return replace(base, eval=replace(base.eval, every=every), log=log, runtime=runtime)
