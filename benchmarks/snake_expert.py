"""A simple expert on Snake, for demonstrations in benchmarks: importing this module adds it to the task.

It takes the safe move from which most free cells can be reached and, among equals, one toward the food. It needs
the flood-fill features, with relative actions.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from flashdqn.envs.snake.task import SNAKE
from flashdqn.envs.task import Demonstrator

#: Straight, right and left, as turns of the heading.
TURNS = (0, 1, 3)
#: What a step toward the food is worth, beside the share of cells that can be reached.
TOWARD_FOOD = 0.25


def choose_moves(obs: Tensor) -> Tensor:
    """The expert's moves, [N], from flood-fill features, [N, 14]."""
    danger, food, heading, reach = obs[:, :3], obs[:, 3:7], obs[:, 7:11].argmax(1), obs[:, 11:14]
    turns = torch.tensor(TURNS, device=obs.device)
    toward = food.gather(1, (heading[:, None] + turns) % 4)  # [N, 3]
    return (reach + TOWARD_FOOD * toward - 10.0 * danger).argmax(1)


def make_reader(env: Any, seed: int) -> Demonstrator:
    """An expert that reads the current observations."""
    return lambda: choose_moves(env._step.obs)


experts: Any = SNAKE.experts
experts["reader"] = make_reader
