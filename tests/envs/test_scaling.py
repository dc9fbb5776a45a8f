"""Observations that are scaled by the bounds of their space."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from flashdqn.envs.gymnasium import GymConfig, build_gym_env
from flashdqn.envs.gymnasium.reading import find_reader
from flashdqn.envs.gymnasium.spaces import Encoder

BIG = float(np.finfo(np.float32).max)
CAR = spaces.Box(np.array([-1.2, -0.07], np.float32), np.array([0.6, 0.07], np.float32))


def encode(space: spaces.Space[Any], obs: Any) -> list[float]:
    encoder = Encoder(space, 2, scale=True)
    batch = gymnasium.vector.utils.create_empty_array(space, 1)
    batch = gymnasium.vector.utils.concatenate(space, [obs], batch)
    out = encoder.empty(1)
    encoder.write(batch, out)
    numbers: list[float] = out[0].ravel().tolist()
    return numbers


@pytest.mark.parametrize(
    ("space", "obs", "expected"),
    [
        (CAR, np.array([-1.2, 0.07], np.float32), [-1.0, 1.0]),
        (CAR, np.array([-0.3, 0.0], np.float32), [0.0, 0.0]),
        (spaces.Box(-np.inf, np.inf, (2,)), np.array([3.0, 4.0], np.float32), [3.0, 4.0]),
        (spaces.Box(-BIG, BIG, (1,)), np.array([3.0], np.float32), [3.0]),
        (spaces.Box(5, 5, (1,)), np.array([5.0], np.float32), [5.0]),
        (spaces.Box(0, 10, (2,), np.int64), np.array([0, 5]), [-1.0, 0.0]),
        (spaces.Box(0, 255, (2,), np.uint8), np.array([0, 255], np.uint8), [0.0, 255.0]),
        (spaces.Discrete(2), 1, [0.0, 1.0]),
        (
            spaces.Dict({"car": CAR, "light": spaces.Discrete(2)}),
            {"car": np.array([0.6, -0.07], np.float32), "light": 0},
            [1.0, -1.0, 1.0, 0.0],
        ),
    ],
)
def test_numbers_with_bounds_lie_between_minus_one_and_one(
    space: spaces.Space[Any], obs: Any, expected: list[float]
) -> None:
    assert encode(space, obs) == pytest.approx(expected, abs=1e-6)


def test_an_agent_reads_the_environments_own_numbers() -> None:
    env = build_gym_env(GymConfig(id="MountainCar-v0", scale=True), 3)
    obs = env.reset(0)
    assert bool((obs.abs() <= 1).all())
    plain = build_gym_env(GymConfig(id="MountainCar-v0"), 3)
    reader = find_reader(env)
    assert reader is not None
    read = reader.read(plain.reset(0).numpy())
    assert read is not None
    assert torch.equal(torch.from_numpy(read.obs), obs)
    assert env.layout[0].kind == "numbers, scaled to -1 … 1"
