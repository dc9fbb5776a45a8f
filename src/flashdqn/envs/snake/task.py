"""Snake as a task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from flashdqn.envs.snake.config import SnakeConfig
from flashdqn.envs.snake.presets import PRESETS
from flashdqn.envs.task import Task, Trial

# The settings of a task are known without PyTorch, which is imported when an environment is made.
if TYPE_CHECKING:
    import torch

    from flashdqn.core.contract import VecEnv
    from flashdqn.core.drawing.view import View
    from flashdqn.envs.snake.env import Snake

#: The features that flood-fill makes expensive.
FLOODED = ("flood", "selective", "enhanced")


def make_snake(config: SnakeConfig, num_envs: int, device: torch.device, held_out: bool) -> VecEnv:
    """Boards of Snake; evaluation uses the same kind."""
    from flashdqn.envs.host_env import place_env
    from flashdqn.envs.snake.env import Snake

    return place_env(lambda place: Snake(config, num_envs, place), device)


def view_snake(env: Snake) -> View:
    """The view of the board."""
    from flashdqn.envs.snake.view import SnakeView

    return SnakeView(env)


def list_snake_trials(config: SnakeConfig) -> Iterator[Trial]:
    """A variant without flood-fill, if the features use it."""
    if config.features in FLOODED:
        yield Trial("no-flood", {"features": "basic"}, "other features: another task")


def drop_unused_distance(settings: dict[str, Any]) -> dict[str, Any]:
    """Until 0.1.0 a distance to the border was ignored without random starts."""
    unused = settings.get("start") != "random"
    return settings | {"border_distance": 0} if unused and "border_distance" in settings else settings


SNAKE = Task(
    about="eat, grow, and do not bite yourself: boards of 4x4 to 32x32",
    config=SnakeConfig,
    make=make_snake,
    presets=PRESETS,
    view=view_snake,
    actions=lambda config: config.action_names,
    upgrade=drop_unused_distance,
    kernels=lambda config: ("play_grid" if config.features == "grid" else "play_vector",),
    trials=lambda config: tuple(list_snake_trials(config)),
)
