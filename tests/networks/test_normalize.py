"""Running statistics, against those of all numbers at once."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import flashdqn
from flashdqn.config import NetworkConfig
from flashdqn.core.contract import ObsSpec
from flashdqn.core.errors import CheckpointError, ConfigError
from flashdqn.envs import check_env
from flashdqn.envs.reward_scale import GAMMA, RewardScale
from flashdqn.networks import build_network
from flashdqn.networks.normalize import ObsNormalizer


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(0, 1000))
def test_the_statistics_are_those_of_everything_seen(sizes: list[int], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    batches = [5 + 3 * torch.randn((size, 2, 3), generator=generator) for size in sizes]
    normalizer = ObsNormalizer((2, 3))
    for batch in batches:
        normalizer.update(batch)
    # the prior counts as two half observations at −1 and 1: mean 0, and a sum of squares of 1
    everything = torch.cat(batches).double()
    count = len(everything) + 1
    mean = everything.sum(0) / count
    variance = (everything.square().sum(0) + 1) / count - mean.square()
    torch.testing.assert_close(normalizer.mean, mean)
    torch.testing.assert_close(normalizer.squares / normalizer.count, variance)
    wanted = ((batches[0] - mean) / (variance + 1e-8).sqrt()).clamp(-10, 10).float()
    torch.testing.assert_close(normalizer(batches[0]), wanted, rtol=1e-4, atol=1e-5)


def test_all_roles_share_the_statistics() -> None:
    config = NetworkConfig(hidden=(4,), normalize=True)
    online = build_network(config, ObsSpec((3,), torch.float32), 2, torch.Generator().manual_seed(0))
    target = copy.deepcopy(online)
    assert online.normalizer is target.normalizer is not None
    assert target.torso is not online.torso


def test_bytes_are_refused() -> None:
    with pytest.raises(ConfigError, match="these are bytes"):
        build_network(NetworkConfig(normalize=True), ObsSpec((3,), torch.uint8), 2, torch.Generator())


def test_rewards_are_divided_by_the_deviation_of_returns() -> None:
    plain = flashdqn.make_env("gym_envs:make_walk", 3, kwargs={"limit": 4})
    env = RewardScale(flashdqn.make_env("gym_envs:make_walk", 3, kwargs={"limit": 4}))
    plain.reset(0), env.reset(0)
    seen, running, over = [], torch.zeros(3), torch.zeros(3, dtype=torch.bool)
    for number in range(12):
        action = torch.tensor([0, number % 2, 2 if number % 3 == 2 else 1])
        true, scaled = plain.step(action), env.step(action)
        running = torch.where(over, 0.0, GAMMA * running + true.reward)
        over = true.terminated | true.truncated
        seen.append(running)
        deviation = torch.cat(seen).double().var(correction=0).add(1e-8).sqrt().float()
        torch.testing.assert_close(scaled.reward, (true.reward / deviation).clamp(-10, 10))
        assert torch.equal(env.outcomes, plain.outcomes)
    check_env(env, steps=20)  # type: ignore[arg-type]


def test_an_action_is_repeated() -> None:
    env = flashdqn.make_env("gym_envs:make_walk", 1, kwargs={"limit": 8}, action_repeat=3)
    env.reset(0)
    first, second, third = (env.step(torch.tensor([0])) for _ in range(3))
    assert [float(step.reward) for step in (first, second, third)] == [1 + 2 + 3, 4 + 5 + 6, 7 + 8]
    assert [bool(step.truncated) for step in (first, second, third)] == [False, False, True]
    check_env(env, steps=20)
    with pytest.raises(flashdqn.FlashDQNError, match=r"leave out --env\.action-repeat"):
        flashdqn.make_env("gym_envs:make_walk", 1, kwargs={"masked": True}, action_repeat=2)


@pytest.mark.parametrize(
    ("name", "value"), [("count", 0.0), ("count", float("nan")), ("squares", -1.0), ("mean", float("inf"))]
)
def test_statistics_that_cannot_be_are_refused(name: str, value: float) -> None:
    state = ObsNormalizer((3,)).state_dict()
    state[name].fill_(value)
    with pytest.raises(CheckpointError, match=r"network\.normalize"):
        ObsNormalizer((3,)).load_state_dict(state)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", torch.tensor(-5.0, dtype=torch.float64)),
        ("squares", torch.tensor(float("nan"), dtype=torch.float64)),
        ("return", torch.zeros(1)),
        ("ended", torch.zeros(3)),
    ],
)
def test_a_reward_scale_that_cannot_be_is_refused(name: str, value: torch.Tensor) -> None:
    env = RewardScale(flashdqn.make_env("gym_envs:make_walk", 3))
    env.reset(0)
    with pytest.raises(CheckpointError, match=f"scale.{name}"):
        env.load_state_dict(env.state_dict() | {f"scale.{name}": value})
