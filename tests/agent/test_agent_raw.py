"""Agents act on what a user's own Gymnasium environment returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gym_envs import Parts, Screen, Walk
from gymnasium.wrappers import FrameStackObservation

import flashdqn
from flashdqn.agent.agent import Agent
from flashdqn.core.errors import EnvError


def trained(name: str, tmp_path: Path, **settings: Any) -> Agent:
    more = {"steps": 300, "envs": 2, "learn.starts": 50, "learn.batch_size": 16, "network.hidden": [32]}
    more |= {
        "eval.episodes": 2,
        "eval.every": 0,
        "out": str(tmp_path),
        "log.tensorboard": False,
        "device": "cpu",
    }
    more |= {"replay.capacity": 1000, "runtime.warmup": False, "runtime.mode": "eager", "seed": 1}
    run = flashdqn.train(name, progress=False, **(more | settings))
    return flashdqn.load(run.path, device="cpu", trust=True)


def test_parts_masks_and_actions_are_the_environments_own(tmp_path: Path) -> None:
    agent, env = trained("gym_envs:make_parts", tmp_path), Parts()
    ours = flashdqn.make_env("gym_envs:make_parts", 1)
    obs, _ = env.reset(seed=0)
    for _ in range(20):
        action = agent.act(obs)
        assert isinstance(action, int)
        assert action == 10 + obs["where"]  # the only legal one
        encoded = ours.vector.encoder.empty(1)  # type: ignore[attr-defined]
        one = {"where": np.array([obs["where"]]), "pair": tuple(part[None] for part in obs["pair"])}
        ours.vector.encoder.write(one, encoded)  # type: ignore[attr-defined]
        torch.testing.assert_close(agent.q(obs), agent.q(torch.from_numpy(encoded))[0])
        obs, _, _, _, _ = env.step(action)


def test_a_batch_of_parts(tmp_path: Path) -> None:
    agent = trained("gym_envs:make_parts", tmp_path)
    vector = gymnasium.vector.SyncVectorEnv([Parts] * 4)
    obs, _ = vector.reset(seed=3)
    action = agent.act(obs)
    assert action.tolist() == (10 + obs["where"]).tolist()
    assert agent.q(obs).shape == (4, 3)
    lacking = {key: part for key, part in obs.items() if key != "pair"}
    with pytest.raises(EnvError, match="trained on other observations"):
        agent.act(lacking)


def test_pictures_as_the_environment_returns_them(tmp_path: Path) -> None:
    agent, env = trained("gym_envs:make_screen", tmp_path, **{"network.channels": [4]}), Screen()
    picture, _ = env.reset(seed=0)
    assert picture.shape == (6, 6, 3)
    front = torch.from_numpy(picture.transpose(2, 0, 1).copy())
    assert torch.equal(agent.q(picture), agent.q(front))
    assert agent.act(picture) == int(agent.act(front[None])[0])
    assert agent.act(np.stack([picture] * 5)).shape == (5,)
    with pytest.raises(EnvError, match=r"reads observations of shape \[3, 6, 6\].*got \[5, 6, 3\]"):
        agent.act(picture[:5])


def test_stacks_as_gymnasium_stacks_them(tmp_path: Path) -> None:
    agent = trained("gym_envs:make_screen", tmp_path, **{"network.channels": [4], "env.stack": 3})
    env = FrameStackObservation(Screen(), 3, padding_type="reset")
    ours = flashdqn.make_env("gym_envs:make_screen", 1, stack=3)
    own_seed = int(np.random.SeedSequence(5).generate_state(1)[0])
    (obs, _), tensor = env.reset(seed=own_seed), ours.reset(5)
    for _ in range(4):
        assert obs.shape == (3, 6, 6, 3)
        assert torch.equal(agent.q(obs), agent.q(tensor)[0])
        obs, *_ = env.step(0)
        tensor = ours.step(torch.tensor([0])).obs
    assert agent.act(np.stack([obs, obs])).shape == (2,)


def test_masks_from_infos(tmp_path: Path) -> None:
    agent = trained("gym_envs:make_walk", tmp_path, **{"env.kwargs": {"masked": True, "first": 5}})
    env = Walk(masked=True, first=5)
    obs, info = env.reset(seed=0)
    for _ in range(4):
        action = agent.act(obs, info["action_mask"])
        assert info["action_mask"][action - 5]
        obs, _, terminated, truncated, info = env.step(action)
        if terminated or truncated:
            break


def test_plain_numbers(tmp_path: Path) -> None:
    agent = trained("gym_envs:make_repeat", tmp_path)
    assert torch.equal(agent.q(1), agent.q(torch.tensor([0.0, 1.0])))
    assert agent.act(np.array([0, 1, 1, 0])).shape == (4,)
