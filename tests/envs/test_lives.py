"""A lost life as an end: in a small game with every turn that it can take, and in any kind of vector."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from flashdqn.envs import check_env
from flashdqn.envs.gymnasium.env import GymVecEnv
from flashdqn.envs.gymnasium.processes import ProcessVector

NOTHING, HURT, STAY = 0, 1, 2


class Lives(gymnasium.Env[Any, Any]):
    """Shows (game, steps, lives). HURT costs a life. With `fragile`, who does nothing just then is dead."""

    observation_space = spaces.Box(0.0, 1e6, (3,), np.float64)
    action_space = spaces.Discrete(3)

    def __init__(self, fragile: bool = False) -> None:
        self.fragile, self.game = fragile, -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.game = 0 if seed is not None else self.game + 1
        self.time, self.lives, self.hurt, self.over = 0, 3, False, False
        return self._observe(), {"lives": self.lives}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert not self.over, "a step after the end"
        self.time += 1
        dies = self.fragile and self.hurt and action == NOTHING
        self.hurt = bool(action == HURT)
        self.lives = 0 if dies else self.lives - self.hurt
        self.over = self.lives == 0 or self.time == 7
        terminated = self.lives == 0
        return self._observe(), 1.0, terminated, self.over and not terminated, {"lives": self.lives}

    def _observe(self) -> Any:
        return np.array([self.game, self.time, self.lives], dtype=np.float64)


def vector(kind: str, fragile: bool) -> GymVecEnv:
    makers = [functools.partial(Lives, fragile)] * 2
    if kind == "processes":
        return GymVecEnv(ProcessVector(makers, 2), "lives", life_loss=True)
    env = SyncVectorEnv(makers, autoreset_mode=AutoresetMode(kind))
    return GymVecEnv(env, "lives", life_loss=True)


def play(env: GymVecEnv, actions: list[int]) -> list[list[float]]:
    """[game, steps, lives, reward, terminated, truncated] of the first row, step by step."""
    env.reset(0)
    rows = []
    for action in actions:
        step = env.step(torch.tensor([action, STAY]))
        flags = [float(step.reward[0]), float(step.terminated[0]), float(step.truncated[0])]
        rows.append([*step.obs[0].tolist(), *flags])
    env.close()
    return rows


@pytest.mark.parametrize("kind", ["NextStep", "processes"])
def test_the_game_goes_on_in_the_next_life(kind: str) -> None:
    rows = play(vector(kind, fragile=False), [STAY, HURT, HURT, HURT, STAY, HURT, HURT, STAY])
    assert rows == [
        [0, 1, 3, 1, 0, 0],
        [0, 2, 2, 1, 1, 0],  # a life is lost: the episode is over
        [0, 3, 2, 0, 0, 0],  # this action was ignored: nothing was done instead
        [0, 4, 1, 1, 1, 0],
        [0, 5, 1, 0, 0, 0],
        [0, 6, 0, 1, 1, 0],  # the last life ends the game
        [1, 0, 3, 0, 0, 0],
        [1, 1, 3, 1, 0, 0],
    ]


@pytest.mark.parametrize("kind", ["NextStep", "processes"])
def test_a_game_that_ends_between_two_lives_starts_anew_there(kind: str) -> None:
    rows = play(vector(kind, fragile=True), [HURT, STAY, STAY, HURT, STAY, STAY])
    assert rows == [
        [0, 1, 2, 1, 1, 0],
        [1, 0, 3, 0, 0, 0],  # doing nothing was deadly: this is the first observation of the next game
        [1, 1, 3, 1, 0, 0],
        [1, 2, 2, 1, 1, 0],
        [2, 0, 3, 0, 0, 0],
        [2, 1, 3, 1, 0, 0],
    ]


@pytest.mark.parametrize("fragile", [False, True])
@pytest.mark.parametrize("kind", ["NextStep", "processes"])
def test_the_contract_is_kept(kind: str, fragile: bool) -> None:
    env = vector(kind, fragile)
    report = check_env(env, steps=120)
    assert report.terminated > 0
    assert report.truncated > 0 or fragile
    env.close()
