"""Environments for workers that collect by themselves: they tell where they are, and misbehave on request."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Telling(gymnasium.Env[Any, Any]):
    """An observation is [episode, episode, step, last action]: two of them tell whether they belong together.

    The reward is the step's number plus a tenth of the action. An episode has `limit` steps; every other one is
    cut off instead of terminated. Every third step, action 1 is not allowed. Once in each `moods` folder, in step
    `when` of some environment: the file `crash` ends the process, `hang` sleeps, `raise` raises.
    """

    def __init__(
        self, limit: int = 7, moods: str = "", when: int = 3, seconds: float = 0.0, broken: bool = False
    ) -> None:
        self.observation_space = spaces.Box(0.0, 2.0**24, (4,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.limit, self.moods, self.when, self.seconds = limit, Path(moods) if moods else None, when, seconds
        self.episode, self.salt, self.at, self.played, self.broken = 0.0, 0.0, 0, 0, broken

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode with a random name."""
        super().reset(seed=seed)
        self.episode, self.salt = map(float, self.np_random.integers(1, 2**20, 2))
        self.at = 0
        return self._look(0), self._tell()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Go on by one."""
        assert self._tell()["action_mask"][int(action)], "an illegal action"
        self.played += 1
        if self.played >= self.when:
            self._misbehave()
        if self.seconds:
            time.sleep(self.seconds)
        reward = self.at + 0.1 * float(action)
        self.at += 1
        over, even = self.at == self.limit, self.episode % 2 == 0
        return self._look(int(action)), reward, over and even, over and not even, self._tell()

    def _look(self, action: int) -> Any:
        return np.array([self.episode, self.salt, self.at, action], np.float32)

    def _tell(self) -> dict[str, Any]:
        return {"action_mask": np.array([1, self.at % 3 != 0], np.int8)}

    def _misbehave(self) -> None:
        if self.broken:
            raise RuntimeError("broken")
        for mood in ("crash", "hang", "raise"):
            if self.moods is not None and _remove(self.moods / mood):
                if mood == "crash":
                    os._exit(7)
                if mood == "hang":
                    time.sleep(1000)
                raise RuntimeError("a bad mood")


def _remove(path: Path) -> bool:
    """Whether it was there, and this process was the first to remove it."""
    try:
        path.unlink()
    except OSError:
        return False
    return True


def make_telling(**settings: Any) -> gymnasium.Env[Any, Any]:
    """A `Telling` environment."""
    return Telling(**settings)
