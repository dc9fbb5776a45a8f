"""The rows of a health record."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HealthLook:
    """What was seen just after an update."""

    time: float
    updates: int
    gradient: float
    """The norm of all gradients together."""
    without: int
    """Parameters that the optimizer has, and that got no gradient."""
    weight: float
    """The largest weight."""
    output: float
    """The largest output of the networks that learn."""
    targets: tuple[float, ...]
    """A number for each network that is called and not trained; it changes when the network does."""
    epsilon: float | None
    """The chance of exploring, where a variable is named like it."""


@dataclass
class RewardCount:
    """Rewards that were seen."""

    count: int = 0
    zero: int = 0
    least: float = 0.0
    most: float = 0.0

    def add(self, value: float) -> None:
        """Count one."""
        self.count += 1
        self.zero += value == 0.0
        self.least = min(self.least, value)
        self.most = max(self.most, value)


@dataclass(frozen=True)
class ReplaySize:
    """A replay, and how many transitions it can hold; 0 if it does not say."""

    name: str
    capacity: int


@dataclass(frozen=True)
class HealthRecord:
    """Everything about learning that was looked at."""

    looks: tuple[HealthLook, ...]
    outer: RewardCount
    inner: RewardCount
    truncated: int
    terminated: int
    replays: tuple[ReplaySize, ...]
    dead: int | None = None
    """Units behind a ReLU that are zero for a whole batch; None if that was not looked at."""
    units: int = 0
    dead_at_first: int = 0
    """The same for the network with new random weights: narrow inputs leave some units zero without any harm."""
