"""The list of tasks, and how their environments are made.

The list imports nothing: `import flashdqn` reads it to register our tasks with Gymnasium, without PyTorch.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from flashdqn.core.errors import ConfigError, EnvError, EnvFailureError

if TYPE_CHECKING:
    import torch

    from flashdqn.core.contract import VecEnv
    from flashdqn.envs.task import EnvConfig, Task


class TaskEntry(NamedTuple):
    """Where a task is found."""

    module: str
    object: str
    #: its name in Gymnasium; empty: it is not registered there
    gymnasium: str = ""


#: The tasks by name. A new one adds its line here. The first is the default.
TASKS = {
    "snake": TaskEntry("flashdqn.envs.snake.task", "SNAKE", "flashdqn/Snake-v0"),
    "sfc": TaskEntry("flashdqn.envs.sfc.task", "SERVICE_CHAINS", "flashdqn/SFC-v0"),
    "fuelbreaks": TaskEntry("flashdqn.envs.fuelbreaks.task", "FUEL_BREAKS", "flashdqn/FuelBreaks-v0"),
    "gym": TaskEntry("flashdqn.envs.gymnasium.task", "GYMNASIUM"),
    "own": TaskEntry("flashdqn.envs.user_env", "USER_ENV"),
}

DEFAULT_TASK = next(iter(TASKS))


def find_task(name: str) -> Task[Any]:
    """The task with this name, which must be in the list."""
    entry = TASKS[name]
    task: Task[Any] = getattr(importlib.import_module(entry.module), entry.object)
    return task


def iterate_tasks() -> Iterator[Task[Any]]:
    """All tasks, in the order of the list."""
    return (find_task(name) for name in TASKS)


def make_default_config() -> EnvConfig:
    """The settings of the first task."""
    config: EnvConfig = find_task(DEFAULT_TASK).config()
    return config


def build_env(config: EnvConfig, num_envs: int, device: torch.device) -> VecEnv:
    """Build the environment that a configuration describes. Without numba-cuda the games run on the CPU."""
    with blame_settings():
        return find_task(config.task).make(config, num_envs, device, False)


def build_evaluation_env(config: EnvConfig, num_envs: int, device: torch.device) -> VecEnv:
    """Build it for evaluation or display: never in separate processes, because there may be hundreds."""
    with blame_settings():
        return find_task(config.task).make(config, num_envs, device, True)


@contextmanager
def blame_settings() -> Iterator[None]:
    """An environment that cannot be built is the user's mistake (exit code 2): a name that nobody knows, a missing
    file or package. An error in the environment's own code is not (exit code 1)."""
    try:
        yield
    except EnvError as error:
        cause = type(error.__cause__)
        told = error.__cause__ is not None or isinstance(error, EnvFailureError)
        if not told or cause.__module__.startswith("gymnasium."):
            error.exit_code = ConfigError.exit_code
        raise
