"""EnvPool's environments, where the package is installed; and a pool that answers as its documentation says."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest
import torch
from gym_envs import STOP, Walk

import flashdqn
from flashdqn.core.errors import EnvError
from flashdqn.envs import check_env
from flashdqn.envs.gymnasium.env import GymVecEnv


class Pool:
    """Steps `Walk`s: resets by the next-step rule, infos as arrays by name, seeds when made."""

    def __init__(self, num_envs: int, max_episode_steps: int, seed: list[int]) -> None:
        assert len(seed) == num_envs
        assert all(0 <= one < 2**31 for one in seed)
        self.walks = [Walk(limit=max_episode_steps) for _ in range(num_envs)]
        self.observation_space, self.action_space = (
            self.walks[0].observation_space,
            self.walks[0].action_space,
        )
        self.over = np.zeros(num_envs, dtype=bool)
        self.closed = False

    def reset(self) -> tuple[Any, dict[str, Any]]:
        self.over[:] = False
        return np.stack([walk.reset()[0] for walk in self.walks]), self._info()

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        assert action.dtype == np.int32
        rows = []
        for walk, over, one in zip(self.walks, self.over, action, strict=True):
            rows.append((walk.reset()[0], 0.0, False, False) if over else walk.step(np.int64(one))[:4])
        obs, reward, terminated, truncated = map(np.array, zip(*rows, strict=True))
        self.over = terminated | truncated
        return obs, reward.astype(np.float32), terminated, truncated, self._info()

    def _info(self) -> dict[str, Any]:
        count = len(self.walks)
        return {
            "env_id": np.arange(count),
            "elapsed_step": np.zeros(count),
            "players": {"env_id": np.arange(count)},
        }

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """A package `envpool` with one environment, and what it was asked for."""
    asked: list[dict[str, Any]] = []

    def make(name: str, *, env_type: str, num_threads: int, **settings: Any) -> Pool:
        assert (name, env_type) == ("Walk-v0", "gymnasium")
        assert num_threads >= 1
        asked.append(settings)
        return Pool(**settings)

    module = types.SimpleNamespace(list_all_envs=lambda: ["Walk-v0"], make=make)
    monkeypatch.setitem(sys.modules, "envpool", module)  # type: ignore[arg-type]
    return asked


def test_a_pool_keeps_the_contract(fake: list[dict[str, Any]]) -> None:
    env = flashdqn.make_env("gym:Walk-v0", 3, vectorization="envpool", max_steps=4)
    report = check_env(env, steps=60)
    assert report.terminated > 0
    assert report.truncated > 0
    assert len({tuple(asked["seed"]) for asked in fake}) > 1  # seeds go in where a pool is made
    assert isinstance(env, GymVecEnv)
    pool = env.vector.env.pool  # type: ignore[attr-defined]
    env.close()
    assert pool.closed


def test_a_pool_plays_what_one_process_plays(fake: list[dict[str, Any]]) -> None:
    pool = flashdqn.make_env("gym:Walk-v0", 3, vectorization="envpool", max_steps=4)
    plain = flashdqn.make_env("gym_envs:make_walk", 3, kwargs={"limit": 4})
    assert torch.equal(pool.reset(0), plain.reset(0))
    generator = torch.Generator().manual_seed(0)
    for _ in range(40):
        action = torch.randint(STOP + 1, (3,), generator=generator)
        for one, other in zip(pool.step(action), plain.step(action), strict=True):
            assert (one is None and other is None) or torch.equal(one, other)
        assert torch.equal(pool.outcomes, plain.outcomes)


def test_what_is_missing_is_named(fake: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EnvError, match="EnvPool has no environment 'Walk-v7'"):
        flashdqn.make_env("gym:Walk-v7", 1, vectorization="envpool")
    with pytest.raises(EnvError, match="Walk-v0 cannot be made by EnvPool: TypeError"):
        flashdqn.make_env("gym:Walk-v0", 1, vectorization="envpool", kwargs={"color": 1})
    monkeypatch.setitem(sys.modules, "envpool", None)  # type: ignore[arg-type]
    with pytest.raises(EnvError, match="EnvPool is not installed: pip install envpool"):
        flashdqn.make_env("gym:Walk-v0", 1, vectorization="envpool")


@pytest.mark.parametrize("life_loss", [False, True])
def test_envpools_own_atari(life_loss: bool) -> None:
    pytest.importorskip("envpool")
    settings = {"vectorization": "envpool", "max_steps": 60, "stack": 4, "atari.life_loss": life_loss}
    env = flashdqn.make_env("gym:ALE/Breakout-v5", 2, **settings)
    assert env.obs_spec.shape == (4, 84, 84)
    report = check_env(env, steps=150)
    assert report.truncated > 0 or life_loss
    assert report.terminated > 0 or not life_loss
    env.close()  # type: ignore[attr-defined]
