"""When a run is over, how much of it is done, and what is due on the way."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import NamedTuple

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

    def reached(self, counts: Counts, seconds: float) -> str:
        """The setting of the limit that ended the run."""
        if self.steps is not None and counts.transitions >= self.steps:
            return "steps"
        return "episodes" if self.episodes is not None and counts.episodes >= self.episodes else "max_time"


class Limits(NamedTuple):
    """Numbers of transitions and episodes at which something may be due: the host must look then."""

    transitions: float = math.inf
    episodes: float = math.inf

    def are_reached(self, counts: Counts) -> bool:
        """Whether the host's view of the counts has come to one of them."""
        return counts.transitions >= self.transitions or counts.episodes >= self.episodes

    def count_safe_iterations(self, counts: Counts, num_envs: int) -> float:
        """Iterations that reach none of them, whatever happens: each adds at most one transition, and one episode,
        for every environment."""
        left = min(self.transitions - counts.transitions, self.episodes - counts.episodes)
        return (left - 1) // num_envs - counts.unseen if math.isfinite(left) else math.inf


def find_limits(config: Config, counts: Counts, starts: int) -> Limits:
    """Where the next report, evaluation or checkpoint is due, learning starts, or the budget is spent."""
    done, periods = counts.transitions, (config.report_every, config.eval.every, config.log.checkpoint_every)
    stops = [(done // every + 1) * every for every in periods if every]
    stops += [stop for stop in (starts, config.steps or 0) if stop > done]
    episodes = config.episodes or 0
    return Limits(min(stops, default=math.inf), episodes if episodes > counts.episodes else math.inf)


#: The clock's checkpoints take at most one part in this many of the time.
SAVE_SHARE = 20


class SaveClock:
    """Says when the last checkpoint is too old; the wall clock may jump, this one does not."""

    def __init__(self, minutes: float) -> None:
        """A checkpoint every `minutes`; 0: never by time."""
        self.period = 60.0 * minutes if minutes > 0 else math.inf
        self._due = math.inf

    def restart(self, took: float = 0.0) -> None:
        """A checkpoint was saved, and this took so many seconds: after a slow save the next one waits longer."""
        self._due = time.monotonic() + max(self.period, SAVE_SHARE * took)

    def is_due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return time.monotonic() >= self._due


def crosses_multiple(every: int, before: int, after: int) -> bool:
    """Whether a multiple of `every` lies in (before, after]; never with every = 0."""
    return every > 0 and before // every < after // every


def crosses_doubling(first: int, before: int, after: int) -> bool:
    """Whether `first` times a power of two lies in (before, after]; never with first = 0."""
    return first > 0 and (before // first).bit_length() < (after // first).bit_length()
