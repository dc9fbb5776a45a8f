"""Environments: batched, on one device, all to one contract."""

from __future__ import annotations

import dataclasses

import torch

from flashdqn.envs.check import check_env
from flashdqn.envs.contract import ObsSpec, VecEnv
from flashdqn.envs.gymnasium import GymConfig, build_gym
from flashdqn.envs.kernels import cuda_available
from flashdqn.envs.moved import Moved
from flashdqn.envs.sfc import ServiceChains, SfcConfig
from flashdqn.envs.snake import Snake, SnakeConfig

__all__ = [
    "ENVS",
    "EnvConfig",
    "GymConfig",
    "ObsSpec",
    "ServiceChains",
    "SfcConfig",
    "Snake",
    "SnakeConfig",
    "VecEnv",
    "build_env",
    "build_games",
    "check_env",
]

#: The settings of every task; the class says which task it is.
EnvConfig = SnakeConfig | SfcConfig | GymConfig

#: the built-in tasks by name: their settings, and a line about each
ENVS: dict[str, tuple[type[EnvConfig], str]] = {
    "snake": (SnakeConfig, "eat, grow, and do not bite yourself: boards of 4x4 to 32x32"),
    "sfc": (SfcConfig, "provision service function chains over 2 to 16 data centres (docs/sfc.md)"),
    "gym": (
        GymConfig,
        "any Gymnasium environment: gym:CartPole-v1, or one of your own: gym:my_module:make_env",
    ),
}


def build_env(config: EnvConfig, num_envs: int, device: torch.device) -> VecEnv:
    """The environment that a configuration describes. Without numba-cuda the games run on the CPU."""
    if isinstance(config, GymConfig):
        games = build_gym(config, num_envs)
        return games if device.type == "cpu" else Moved(games, device)
    kind = ServiceChains if isinstance(config, SfcConfig) else Snake
    if device.type == "cuda" and not cuda_available():
        return Moved(kind(config, num_envs, torch.device("cpu")), device)  # type: ignore[arg-type]
    return kind(config, num_envs, device)  # type: ignore[arg-type]


def build_games(config: EnvConfig, num_envs: int, device: torch.device) -> VecEnv:
    """The same to evaluate on, or to look at: never in processes of its own, for there may be hundreds of games."""
    if isinstance(config, GymConfig) and config.vectorization == "async":
        config = dataclasses.replace(config, vectorization="sync")
    return build_env(config, num_envs, device)
