"""Environments: batched, on one device, all to one contract."""

from __future__ import annotations

import torch

from flashdqn.envs.check import check_env
from flashdqn.envs.contract import ObsSpec, VecEnv
from flashdqn.envs.kernels import cuda_available
from flashdqn.envs.moved import Moved
from flashdqn.envs.snake import Snake, SnakeConfig

__all__ = ["ENVS", "ObsSpec", "Snake", "SnakeConfig", "VecEnv", "build_env", "check_env"]

#: the built-in tasks by name: their settings, and a line about each
ENVS = {"snake": (SnakeConfig, "eat, grow, and do not bite yourself: boards of 4x4 to 32x32")}


def build_env(config: SnakeConfig, num_envs: int, device: torch.device) -> VecEnv:
    """The environment that a configuration describes. Without numba-cuda the games run on the CPU."""
    if device.type == "cuda" and not cuda_available():
        return Moved(Snake(config, num_envs, torch.device("cpu")), device)
    return Snake(config, num_envs, device)
