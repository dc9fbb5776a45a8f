"""The train ratio: gradient steps per collected transition, exact over time."""

from __future__ import annotations

from fractions import Fraction
from typing import Protocol

from flashdqn.config import Config
from flashdqn.learn.pqn import RolloutSampler


class Ratio(Protocol):
    """When updates are due."""

    @property
    def asked(self) -> float:
        """Updates per transition, as wished."""

    @property
    def starts(self) -> int:
        """Transitions that earn none."""

    def due(self, transitions: int, updates: int) -> int:
        """Updates to do now, for all that was collected and done so far."""

    def achieved(self, transitions: int, updates: int) -> float:
        """Updates per transition, as they were."""


class TrainRatio:
    """Says how many updates are due. Whole-number arithmetic: no drift, whatever the number of environments.

    Transitions collected before `starts` earn no updates, so that none are caught up in a burst.
    """

    def __init__(self, ratio: float, starts: int) -> None:
        self.asked = float(ratio)
        self.ratio = Fraction(repr(self.asked))
        self.starts = starts

    def due(self, transitions: int, updates: int) -> int:
        """Updates to do now, for all that was collected and done so far."""
        ratio = self.ratio
        earned = max(0, transitions - self.starts) * ratio.numerator // ratio.denominator
        return max(0, earned - updates)

    def achieved(self, transitions: int, updates: int) -> float:
        """The ratio that was really kept since learning started."""
        return updates / (transitions - self.starts) if transitions > self.starts else 0.0


class RolloutRatio:
    """PQN's: a complete rollout earns all its updates at once.

    What is asked for is that of a rollout in which no episode ends. Rows that start an episode are no
    transitions and earn nothing less, so what is achieved lies a little above.
    """

    starts = 0

    def __init__(self, sampler: RolloutSampler) -> None:
        self.sampler = sampler
        self.asked = sampler.updates / sampler.transitions

    def due(self, transitions: int, updates: int) -> int:
        """What is left of the rollout."""
        return self.sampler.remaining

    def achieved(self, transitions: int, updates: int) -> float:
        """Over all that was collected."""
        return updates / transitions if transitions else 0.0


def build_ratio(config: Config, rollouts: RolloutSampler | None = None) -> Ratio:
    """By transitions, or by rollouts."""
    if rollouts is not None:
        return RolloutRatio(rollouts)
    # The first updates need windows of n complete rows, and one more for resets among them.
    starts = max(config.learn.starts, (config.replay.n_step + 1) * config.envs)
    return TrainRatio(config.train_ratio, starts)
