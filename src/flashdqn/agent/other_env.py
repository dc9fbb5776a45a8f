"""A trained agent in an environment with other settings: a larger board, other rewards, longer games."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, NamedTuple

import torch

from flashdqn.core.contract import close_env
from flashdqn.core.errors import ConfigError
from flashdqn.core.ranges import describe_value
from flashdqn.envs.tasks import build_evaluation_env
from flashdqn.learn.learner import build_learner

if TYPE_CHECKING:
    from flashdqn.config import Config
    from flashdqn.envs.task import EnvConfig


def change_env(config: Config, env: EnvConfig) -> Config:
    """The configuration of a trained agent with other settings of its environment; refuse those that its network
    cannot take."""
    other = replace(config, env=env)
    if env == config.env:
        return config
    trained, asked = describe_network(config), describe_network(other)
    if trained.weights != asked.weights:
        raise ConfigError(
            f"This agent cannot play with {format_changes(config, other)}: its network has {trained.reads}, "
            f"and these games have {asked.reads}; see docs/troubleshooting.md#other-boards."
        )
    return other


class NetworkShapes(NamedTuple):
    """What a network reads and returns in words, and the shapes of its weights by name."""

    reads: str
    weights: dict[str, torch.Size]


def describe_network(config: Config) -> NetworkShapes:
    """The shapes of a network for this configuration."""
    cpu = torch.device("cpu")
    env = build_evaluation_env(config.env, 1, cpu)
    try:
        weights = build_learner(config, env, cpu).weights()
        shape = "x".join(map(str, env.obs_spec.shape))
        reads = f"{shape} inputs and {env.num_actions} actions"
        return NetworkShapes(reads, {name: tensor.shape for name, tensor in weights.items()})
    finally:
        close_env(env)


def format_changes(config: Config, other: Config) -> str:
    """The settings of the environment that differ: `env.size 15 instead of 10`."""
    words = []
    for field in fields(other.env):
        new, old = getattr(other.env, field.name), getattr(config.env, field.name)
        if new != old:
            words.append(f"env.{field.name} {describe_value(new)} instead of {describe_value(old)}")
    return ", ".join(words)
