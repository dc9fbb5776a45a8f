"""Schedules: pure functions of the number of transitions. They do not depend on when a run stops."""

from __future__ import annotations

import torch
from torch import Tensor

from flashdqn.compute.ranks import ALONE, Ranks
from flashdqn.config import Config, ExploreConfig, LearnConfig, ReplayConfig
from flashdqn.replay import Sampler


class Schedules:
    """Writes the current ε, learning rate and β where the device reads them, but only when they have changed."""

    def __init__(
        self, config: Config, eps: Tensor, lr: Tensor, sampler: Sampler, ranks: Ranks = ALONE
    ) -> None:
        self.config, self.eps, self.lr, self.sampler = config, eps, lr, sampler
        self._written: tuple[float, float, float] = (-1.0, -1.0, -1.0)
        if config.explore.schedule == "spread":
            boards, first = len(eps) * ranks.world, len(eps) * ranks.rank
            rates = spread_exploration_rates(config.explore.start, config.explore.end, boards)
            eps.copy_(rates[first : first + len(eps)])

    def write(self, transitions: int) -> None:
        """Write the values for this number of transitions."""
        config, (eps, lr, beta) = self.config, self._written
        spread_out = config.explore.schedule == "spread"
        now = (
            0.0 if spread_out else exploration_rate(config.explore, transitions),
            learning_rate(config.learn, transitions),
            importance_exponent(config.replay, transitions),
        )
        if now[0] != eps and not spread_out:
            self.eps.fill_(now[0])
        if now[1] != lr:
            self.lr.fill_(now[1])
        if now[2] != beta:
            self.sampler.set_beta(now[2])
        self._written = now


def exploration_rate(config: ExploreConfig, transitions: int) -> float:
    """ε of the linear and the exponential schedule, the same for all environments."""
    share = min(1.0, transitions / config.over)
    if config.schedule == "exponential":
        return config.start * float((config.end / config.start) ** share)
    return config.start + (config.end - config.start) * share


def spread_exploration_rates(start: float, end: float, num_envs: int) -> Tensor:
    """ε in equal factors from `start` (environment 0) to `end`, as in Ape-X (Horgan et al. 2018)."""
    share = torch.arange(num_envs, dtype=torch.float64) / max(1, num_envs - 1)
    return (start * (end / start) ** share).to(torch.float32)


def learning_rate(config: LearnConfig, transitions: int) -> float:
    """Constant, or falling linearly to `lr_end`."""
    if config.lr_end is None:
        return config.lr
    share = min(1.0, transitions / config.lr_over)
    return config.lr + (config.lr_end - config.lr) * share


def importance_exponent(config: ReplayConfig, transitions: int) -> float:
    """β of prioritized replay, which rises linearly to 1 (Schaul et al. 2016, section 3.4)."""
    share = min(1.0, transitions / config.beta_over)
    return config.beta + (1.0 - config.beta) * share
