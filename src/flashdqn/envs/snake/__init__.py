"""Snake: one board per environment, on CPU threads or on CUDA."""

from typing import TYPE_CHECKING

from flashdqn.core.lazy_names import import_later
from flashdqn.envs.snake.config import SnakeConfig

if TYPE_CHECKING:
    from flashdqn.envs.snake.env import Board, Snake
else:
    _ENV = "flashdqn.envs.snake.env"
    __getattr__ = import_later(__name__, {"Board": _ENV, "Snake": _ENV})

__all__ = ["Board", "Snake", "SnakeConfig"]
