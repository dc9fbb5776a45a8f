"""When a run is over, and how much of it is done."""

from __future__ import annotations

from dataclasses import dataclass

from flashdqn.config import Config
from flashdqn.training.counts import Counts


@dataclass(frozen=True)
class Budget:
    """The first limit that is reached ends the run; None never does."""

    steps: int | None
    episodes: int | None
    max_time: float | None

    @classmethod
    def of(cls, config: Config) -> Budget:
        """The limits in a configuration."""
        return cls(config.steps, config.episodes, config.max_time)

    def share(self, counts: Counts, seconds: float) -> float:
        """The share of the run that is done, 0 … 1 (1: it is over)."""
        parts = ((counts.transitions, self.steps), (counts.episodes, self.episodes), (seconds, self.max_time))
        return min(1.0, max((done / limit for done, limit in parts if limit is not None), default=0.0))


def crosses_multiple(every: int, before: int, after: int) -> bool:
    """Whether a multiple of `every` lies in (before, after]; never with every = 0."""
    return every > 0 and before // every < after // every


def crosses_doubling(first: int, before: int, after: int) -> bool:
    """Whether `first` times a power of two lies in (before, after]; never with first = 0."""
    return first > 0 and (before // first).bit_length() < (after // first).bit_length()
