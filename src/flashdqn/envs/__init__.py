"""Environments: batched, on one device, all to one contract."""

from __future__ import annotations

import dataclasses

import torch

from flashdqn.compute.kernels import cuda_available
from flashdqn.core.contract import ObsSpec, VecEnv
from flashdqn.envs.check import check_env
from flashdqn.envs.frame_stack import FrameStack
from flashdqn.envs.fuelbreaks import FuelBreaks, FuelBreaksConfig
from flashdqn.envs.gymnasium import GymConfig, build_gym_env
from flashdqn.envs.host_env import HostEnv
from flashdqn.envs.sfc import ServiceChains, SfcConfig
from flashdqn.envs.snake import Snake, SnakeConfig
from flashdqn.envs.user_env import UserEnvConfig, build_user_env

__all__ = [
    "ENVS",
    "EnvConfig",
    "FuelBreaks",
    "FuelBreaksConfig",
    "GymConfig",
    "ObsSpec",
    "ServiceChains",
    "SfcConfig",
    "Snake",
    "SnakeConfig",
    "UserEnvConfig",
    "VecEnv",
    "build_env",
    "build_games",
    "check_env",
]

#: The settings of every task; the class says which task it is.
EnvConfig = SnakeConfig | SfcConfig | FuelBreaksConfig | GymConfig | UserEnvConfig

#: the built-in tasks by name: their settings, and a line about each
ENVS: dict[str, tuple[type[EnvConfig], str]] = {
    "snake": (SnakeConfig, "eat, grow, and do not bite yourself: boards of 4x4 to 32x32"),
    "sfc": (SfcConfig, "provision service function chains over 2 to 16 data centres (docs/sfc.md)"),
    "fuelbreaks": (FuelBreaksConfig, "place fuel breaks so that wildfires burn less (docs/fuelbreaks.md)"),
    "gym": (
        GymConfig,
        "any Gymnasium environment: gym:CartPole-v1, or one of your own: gym:my_module:make_env",
    ),
    "own": (UserEnvConfig, "a batched game of your own: my_game:Coins (docs/own-games.md)"),
}


def build_env(config: EnvConfig, num_envs: int, device: torch.device) -> VecEnv:
    """The environment that a configuration describes. Without numba-cuda the games run on the CPU."""
    if isinstance(config, GymConfig):
        games: VecEnv = build_gym_env(config, num_envs)
        games = games if device.type == "cpu" else HostEnv(games, device)
        return games if config.stack == 1 else FrameStack(games, config.stack)
    if isinstance(config, UserEnvConfig):
        return build_user_env(config, num_envs, device)
    return _build_builtin_env(config, num_envs, device, held_out=False)


def build_evaluation_env(config: EnvConfig, num_envs: int, device: torch.device) -> VecEnv:
    """The same to evaluate on, or to look at: never in processes of its own, for there may be hundreds of games."""
    if isinstance(config, GymConfig):
        config = make_evaluation_config(config)
    if isinstance(config, FuelBreaksConfig):  # on landscapes that training does not see
        return _build_builtin_env(config, num_envs, device, held_out=True)
    return build_env(config, num_envs, device)


def make_evaluation_config(config: GymConfig) -> GymConfig:
    """To evaluate on: no worker processes, and a game that ends when it is over, not with a life."""
    atari = dataclasses.replace(config.atari, life_loss=False)
    vectorization = "sync" if config.vectorization == "async" else config.vectorization
    return dataclasses.replace(config, vectorization=vectorization, atari=atari)


def _build_builtin_env(
    config: SnakeConfig | SfcConfig | FuelBreaksConfig, num_envs: int, device: torch.device, held_out: bool
) -> VecEnv:
    """A task of ours, on the CPU where its kernels cannot run on the device."""
    there = device.type != "cuda" or cuda_available()
    place = device if there else torch.device("cpu")
    env: VecEnv
    if isinstance(config, FuelBreaksConfig):
        env = FuelBreaks(config, num_envs, place, held_out)
    elif isinstance(config, SfcConfig):
        env = ServiceChains(config, num_envs, place)
    else:
        env = Snake(config, num_envs, place)
    return env if there else HostEnv(env, device)
