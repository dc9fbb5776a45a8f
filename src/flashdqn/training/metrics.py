"""Episode figures, summed up on the device and read once per report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from flashdqn.core.errors import EnvError
from flashdqn.core.saved import require_finite
from flashdqn.core.types import Step
from flashdqn.runs.columns import LENGTH, RESERVED, RETURN, WINDOW_EPISODES


@dataclass(frozen=True)
class EpisodeMeans:
    """Means over the episodes that ended in a window; NaN if none ended."""

    episodes: int
    return_: float
    length: float
    outcomes: dict[str, float]


class EpisodeMetrics:
    """The running return and length of each environment, and the window's sums over finished episodes."""

    def __init__(self, num_envs: int, outcome_names: tuple[str, ...], device: torch.device) -> None:
        if taken := RESERVED & set(outcome_names):
            raise EnvError(
                f"An environment's outcomes cannot be called {', '.join(sorted(taken))}: rename them."
            )
        self.names = (WINDOW_EPISODES.name, RETURN.name, LENGTH.name, *outcome_names)
        self.running = torch.zeros((num_envs, len(self.names)), device=device)
        self.running[:, 0] = 1.0
        self.sums = torch.zeros(len(self.names), device=device)

    def observe(self, step: Step, was_reset: Tensor, outcomes: Tensor, totals: Tensor) -> None:
        """Count one step; its transitions and finished episodes are added to `totals` ([2] int64)."""
        ended = step.terminated | step.truncated
        keep = ~ended
        running = self.running
        running[:, 1] += step.reward
        running[:, 2] += ~was_reset
        # outcomes of unfinished episodes mean nothing: they may be NaN, and 0 · NaN would spoil the product
        running[:, 3:] = outcomes.masked_fill(keep[:, None], 0.0)
        self.sums += ended.to(torch.float32) @ running
        running[:, 1:3] *= keep[:, None]
        totals += torch.stack((len(ended) - was_reset.sum(), ended.sum()))

    def add_ended(self, sums: Tensor, episodes: int) -> None:
        """Count episodes that were summed up elsewhere: return, length and outcomes, added up over all of them."""
        if episodes:
            ended = torch.cat((torch.tensor([float(episodes)]), sums.to(torch.float32)))
            self.sums += ended.to(self.sums.device)

    def read(self) -> EpisodeMeans:
        """The number of episodes in the window and their means; starts a new window."""
        episodes, *sums = self.sums.tolist()
        self.sums.zero_()
        mean_return, length, *outcomes = (value / episodes if episodes else math.nan for value in sums)
        return EpisodeMeans(
            int(episodes), mean_return, length, dict(zip(self.names[3:], outcomes, strict=True))
        )

    def cut_off(self) -> None:
        """Forget the unfinished episodes: they will not continue."""
        self.running[:, 1:3].zero_()

    def state_dict(self) -> dict[str, Tensor]:
        """The unfinished episodes and the unfinished window."""
        return {"running": self.running, "sums": self.sums}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Continue from a checkpoint."""
        require_finite("a number of episodes", state["running"][:, 0])
        require_finite("a number of episodes", state["sums"][0])
        self.running.copy_(state["running"])
        self.sums.copy_(state["sums"])
