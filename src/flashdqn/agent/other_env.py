"""A trained agent in an environment with other settings: a larger board, other rewards, longer games."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

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
            f"This agent cannot play with {format_changes(config, other)}: its network has {trained.reads}, and these "
            f"games have {asked.reads}. See docs/troubleshooting.md#other-boards."
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


def list_changes(config: Config, other: Config) -> dict[str, Any]:
    """The settings of the environment that differ, by their names, with their new values."""
    old, new = config.env, other.env
    return {
        f"env.{field.name}": getattr(new, field.name)
        for field in fields(new)
        if getattr(new, field.name) != getattr(old, field.name, None)
    }


def format_changes(config: Config, other: Config) -> str:
    """The same as a text: `env.size 15`."""
    changes = list_changes(config, other).items()
    return ", ".join(f"{name} {describe_value(value)}" for name, value in changes)
