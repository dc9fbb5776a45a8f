"""Schedules: pure functions of the number of transitions. Nothing here knows when a run will stop."""

from __future__ import annotations

import torch
from torch import Tensor

from flashdqn.config import ExploreConfig, LearnConfig, ReplayConfig


def exploration(config: ExploreConfig, transitions: int, eps: Tensor) -> None:
    """Write every environment's ε, [N], for the present moment."""
    if config.schedule == "spread":
        if transitions == 0:
            eps.copy_(spread(config.start, config.end, len(eps)))
        return
    eps.fill_(exploration_rate(config, transitions))


def exploration_rate(config: ExploreConfig, transitions: int) -> float:
    """The one ε of the linear and the exponential schedule."""
    share = min(1.0, transitions / config.over)
    if config.schedule == "exponential":
        return config.start * float((config.end / config.start) ** share)
    return config.start + (config.end - config.start) * share


def spread(start: float, end: float, num_envs: int) -> Tensor:
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
    """β of prioritised replay, which rises linearly to 1 (Schaul et al. 2016, section 3.4)."""
    share = min(1.0, transitions / config.beta_over)
    return config.beta + (1.0 - config.beta) * share
