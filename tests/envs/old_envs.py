"""Small environments with the habits of packages that people bring: `gym:old_envs:Old`."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

#: Tuples of the form that crafter has, where gym is not installed.
BoxSpace = namedtuple("BoxSpace", "low, high, shape, dtype")
DiscreteSpace = namedtuple("DiscreteSpace", "n")


class Old:
    """No Gymnasium at all: a step of four, an observation alone, `seed()`. It ends after `limit` steps."""

    observation_space = BoxSpace(0, 9, (2,), np.float32)
    action_space = DiscreteSpace(3)

    def __init__(self, limit: int = 4, by_clock: bool = False) -> None:
        self.limit, self.by_clock, self.time = limit, by_clock, 0
        self.rng = np.random.default_rng(0)

    def seed(self, seed: int) -> None:
        assert 0 <= seed < 2**31
        self.rng = np.random.default_rng(seed)

    def reset(self) -> Any:
        self.time, self.luck = 0, self.rng.random()
        return self.look()

    def step(self, action: int) -> tuple[Any, float, bool, dict[str, Any]]:
        self.time += 1
        done = self.time >= self.limit
        return self.look(), 1.0, done, {"TimeLimit.truncated": True} if done and self.by_clock else {}

    def render(self, mode: str = "human") -> Any:
        assert mode == "rgb_array"
        return np.full((4, 6, 3), 7, dtype=np.uint8)

    def look(self) -> Any:
        return np.array([self.time, self.luck], dtype=np.float32)


class OldReset(gymnasium.Env[Any, Any]):
    """Gymnasium's, but its reset takes no seed and returns the observation alone, with a mask inside: JSSEnv."""

    def __init__(self) -> None:
        self.action_space = spaces.Discrete(2)
        self.observation_space = spaces.Dict(
            {"action_mask": spaces.Box(0, 1, (2,)), "real_obs": spaces.Box(0.0, 1.0, (2, 2))}
        )

    def reset(self) -> Any:  # type: ignore[override]
        return self.look()

    def step(self, action: Any) -> Any:
        assert action == 1, "an illegal action"
        return self.look(), 1.0, False, False, {}

    def look(self) -> Any:
        return {"real_obs": np.ones((2, 2)), "action_mask": np.array([False, True])}


class Words(gymnasium.Env[Any, Any]):
    """An image, a direction and a text, as MiniGrid has them; a row of it is 151 bytes."""

    metadata = {"render_modes": ["human"]}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None, only: bool = False) -> None:
        parts = {
            "direction": spaces.Discrete(4),
            "image": spaces.Box(0, 255, (7, 7, 3), np.uint8),
            "mission": spaces.Text(20),
        }
        self.observation_space = spaces.Dict({"mission": parts["mission"]} if only else parts)
        self.action_space = spaces.Discrete(2)
        self.time = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time = 0
        return self.look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        return self.look(), float(action), self.time == 5, False, {}

    def look(self) -> Any:
        return {
            "direction": self.time % 4,
            "image": np.full((7, 7, 3), self.time, dtype=np.uint8),
            "mission": "get to the goal",
        }


class Several:
    """As PettingZoo's: spaces by agent."""

    possible_agents = ("a", "b")

    def action_space(self, agent: str) -> Any: ...
    def observation_space(self, agent: str) -> Any: ...
    def reset(self) -> Any: ...
    def step(self, actions: Any) -> Any: ...


class Needy(Words):
    """Cannot be made without data."""

    def __init__(self, df: Any) -> None:
        super().__init__()


def register_envs() -> None:
    """As some packages have it, for `gym:old_envs:WordsOnRequest-v0`."""
    gymnasium.register("WordsOnRequest-v0", "old_envs:Words")
    gymnasium.register("OldReset-v0", "old_envs:OldReset", max_episode_steps=3)
    gymnasium.register("Needy-v0", "old_envs:Needy")
