"""Environments: batched, on one device, all to one contract. `tasks.py` lists the built-in ones.

The names below are imported when they are first used: the list of tasks must not wait for PyTorch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flashdqn.core.contract import ObsSpec, VecEnv
    from flashdqn.envs.check import check_env
    from flashdqn.envs.fuelbreaks import FuelBreaks, FuelBreaksConfig
    from flashdqn.envs.gymnasium import GymConfig
    from flashdqn.envs.sfc import ServiceChains, SfcConfig
    from flashdqn.envs.snake import Snake, SnakeConfig
    from flashdqn.envs.task import EnvConfig
    from flashdqn.envs.tasks import build_env, build_evaluation_env
    from flashdqn.envs.user_env import UserEnvConfig

__all__ = [
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
    "build_evaluation_env",
    "check_env",
]

#: The module that each name lives in.
_HOMES = {
    "EnvConfig": "flashdqn.envs.task",
    "FuelBreaks": "flashdqn.envs.fuelbreaks",
    "FuelBreaksConfig": "flashdqn.envs.fuelbreaks",
    "GymConfig": "flashdqn.envs.gymnasium",
    "ObsSpec": "flashdqn.core.contract",
    "ServiceChains": "flashdqn.envs.sfc",
    "SfcConfig": "flashdqn.envs.sfc",
    "Snake": "flashdqn.envs.snake",
    "SnakeConfig": "flashdqn.envs.snake",
    "UserEnvConfig": "flashdqn.envs.user_env",
    "VecEnv": "flashdqn.core.contract",
    "build_env": "flashdqn.envs.tasks",
    "build_evaluation_env": "flashdqn.envs.tasks",
    "check_env": "flashdqn.envs.check",
}

if not TYPE_CHECKING:  # a type checker must still refuse names that do not exist

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'flashdqn.envs' has no attribute '{name}'")
        globals()[name] = value = getattr(importlib.import_module(_HOMES[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
