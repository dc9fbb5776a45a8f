"""Snake: one board per environment, on CPU threads or on CUDA."""

from flashdqn.envs.snake.config import SnakeConfig
from flashdqn.envs.snake.env import Board, Snake

__all__ = ["Board", "Snake", "SnakeConfig"]
