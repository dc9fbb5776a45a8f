"""A corridor with Gymnasium's interface, and settings for a training on it that takes a second."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

CELLS = 5

TINY_GYM: dict[str, Any] = {
    "steps": 320,
    "device": "cpu",
    "progress": False,
    "network.hidden": [8],
    "replay.capacity": 500,
    "learn.starts": 40,
    "learn.batch_size": 16,
    "learn.lr": 3e-3,
    "explore.over": 200,
    "eval.every": 100,
    "eval.episodes": 2,
    "log.every": 100,
    "log.tensorboard": False,
    "log.game": False,
    "runtime.threads": 1,
    "runtime.mode": "eager",
    "runtime.warmup": False,
}


class Corridor(gymnasium.Env[Any, Any]):
    """Go right to the end; action 0 may be illegal."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (CELLS,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, masked: bool = False) -> None:
        self.masked, self.closed, self.resets = masked, False, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.cell, self.count = int(self.np_random.integers(CELLS - 1)), 0
        self.resets += 1
        return self._obs(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert not (self.masked and action == 0)
        self.cell, self.count = max(0, self.cell + (1 if action else -1)), self.count + 1
        there = self.cell == CELLS - 1
        return self._obs(), float(there), there, self.count >= 20, self._info()

    def close(self) -> None:
        self.closed = True

    def _obs(self) -> Any:
        return np.eye(CELLS, dtype=np.float32)[self.cell]

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.array([0, 1], np.int8)} if self.masked else {}


def make_corridor() -> Corridor:
    return Corridor()
