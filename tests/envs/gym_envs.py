"""Small Gymnasium environments with known games, made anew by name: `gym:gym_envs:make_walk`."""

from __future__ import annotations

import os
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

#: The action that ends a walk.
STOP = 2


class Walk(gymnasium.Env[Any, Any]):
    """Observes (steps taken, last action); STOP terminates, and the clock truncates. Every episode starts alike.

    The reward is the number of the step, so that a return tells how far an episode went. With `masked`, the action
    that was taken last is illegal, and STOP is always legal.
    """

    def __init__(self, limit: int = 5, masked: bool = False, first: int = 0) -> None:
        self.limit, self.masked = limit, masked
        self.observation_space = spaces.Box(-1.0, 100.0, (2,), np.float64)
        self.action_space = spaces.Discrete(3, start=first)
        self.first, self.time, self.last = first, 0, -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time, self.last = 0, -1
        return self._observe(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        assert self.last != STOP, "a step after the end"
        assert self.time < self.limit, "a step after the end"
        move = int(action) - self.first
        assert not self.masked or move == STOP or move != self.last, "an illegal action"
        self.time, self.last = self.time + 1, move
        ended, late = move == STOP, self.time >= self.limit
        return self._observe(), float(self.time), ended, late, self._info()

    def _observe(self) -> Any:
        return np.array([self.time, self.last], dtype=np.float64)

    def _info(self) -> dict[str, Any]:
        if not self.masked:
            return {}
        mask = np.ones(3, dtype=np.int8)
        if self.last in (0, 1):
            mask[self.last] = 0
        return {"action_mask": mask}


class Faulty(Walk):
    """Raises, dies or hangs in its third step."""

    def __init__(self, how: str = "raise", **more: Any) -> None:
        super().__init__(**more)
        self.how, self.total = how, 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.total += 1
        if self.total == 3:
            if self.how == "raise":
                raise ZeroDivisionError("no more")
            if self.how == "die":
                os._exit(7)
            time.sleep(600)
        return super().step(action)


class Showing(gymnasium.Env[Any, Any]):
    """Returns samples of any observation space; every episode lasts three steps."""

    def __init__(self, space: spaces.Space[Any], actions: spaces.Space[Any] | None = None) -> None:
        self.observation_space = space
        self.action_space = actions or spaces.Discrete(2)
        self.shown: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.time = 0
        return self._show(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        return self._show(), 1.0, self.time == 3, False, {}

    def _show(self) -> Any:
        self.shown.append(self.observation_space.sample())
        return self.shown[-1]


class Repeat(gymnasium.Env[Any, Any]):
    """Shows 0 or 1, and pays 1 where the action is the same; an episode lasts ten steps."""

    observation_space = spaces.Discrete(2)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time, self.shown = 0, int(self.np_random.integers(2))
        return self.shown, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = float(action == self.shown)
        self.time, self.shown = self.time + 1, int(self.np_random.integers(2))
        return self.shown, reward, False, self.time == 10, {}


class Screen(gymnasium.Env[Any, Any]):
    """A picture with its number in every pixel; action 1 ends an episode, and the clock cuts it off.

    The reward is 5 times the action's number plus one, so that clipping shows.
    """

    def __init__(self, limit: int = 6, size: int = 6) -> None:
        self.limit = limit
        self.observation_space = spaces.Box(0, 255, (size, size, 3), np.uint8)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time, self.number = 0, int(self.np_random.integers(100))
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time, self.number = self.time + 1, (self.number + 7) % 256
        ends = bool(action == 1 and self.time > 2)
        return self._observe(), 5.0 * (int(action) + 1), ends, self.time >= self.limit, {}

    def _observe(self) -> Any:
        size = self.observation_space.shape[0]  # type: ignore[index]
        picture = np.full((size, size, 3), self.number, dtype=np.uint8)
        picture[..., 1] = self.time
        picture[0, 0, 2] = 255 - self.number
        return picture


class Parts(gymnasium.Env[Any, Any]):
    """An observation in parts, with a mask among them: only the action that `where` names is legal and pays."""

    observation_space = spaces.Dict(
        {
            "where": spaces.Discrete(3),
            "pair": spaces.Tuple((spaces.Box(-1.0, 1.0, (2,), np.float64), spaces.MultiBinary(2))),
            "action_mask": spaces.Box(0, 1, (3,), np.int8),
        }
    )
    action_space = spaces.Discrete(3, start=10)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(np.int64(action))
        reward = float(int(action) - 10 == self.where)
        self.time += 1
        return self._observe(), reward, False, self.time == 5, {}

    def _observe(self) -> Any:
        self.where = int(self.np_random.integers(3))
        mask = np.zeros(3, dtype=np.int8)
        mask[self.where] = 1
        pair = (self.np_random.uniform(-1, 1, 2), self.np_random.integers(0, 2, 2, dtype=np.int8))
        return {"where": self.where, "pair": pair, "action_mask": mask}


def make_screen(**settings: Any) -> gymnasium.Env[Any, Any]:
    return Screen(**settings)


def make_parts() -> gymnasium.Env[Any, Any]:
    return Parts()


def make_walk(**settings: Any) -> gymnasium.Env[Any, Any]:
    return Walk(**settings)


def make_faulty(**settings: Any) -> gymnasium.Env[Any, Any]:
    return Faulty(**settings)


def make_repeat() -> gymnasium.Env[Any, Any]:
    return Repeat()


def make_nothing() -> object:
    return object()


not_a_function = 3
