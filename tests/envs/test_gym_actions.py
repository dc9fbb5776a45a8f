"""Actions of several parts, and continuous ones in bins, as Gymnasium's environments take them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

import flashdqn
from flashdqn.core.contract import get_branches
from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.envs import check_env
from flashdqn.envs.gymnasium.actions import make_action_coder

GAMES: list[tuple[str, dict[str, Any], dict[str, Any], tuple[int, ...]]] = [
    ("Knobs", {}, {}, (3, 4, 2)),
    ("Knobs", {"masked": "tuple", "far": 5}, {}, (3, 4, 2)),
    ("Knobs", {"masked": "flat"}, {}, (3, 4, 2)),
    ("Switches", {"count": 3}, {}, (2, 2, 2)),
    ("Switches", {"count": 1}, {}, ()),
    ("Throttle", {"count": 1}, {"action_bins": 5}, ()),
    ("Throttle", {"count": 2}, {"action_bins": 3}, (3, 3)),
]


@pytest.mark.parametrize(("name", "kwargs", "more", "branches"), GAMES)
def test_the_contract_is_kept(
    name: str, kwargs: dict[str, Any], more: dict[str, Any], branches: tuple[int, ...]
) -> None:
    env = flashdqn.make_env(f"gym:space_envs:{name}", 3, kwargs=kwargs, **more)
    assert get_branches(env) == branches
    check_env(env, steps=30)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(0, 1000))
def test_every_number_is_another_action_of_the_space(sizes: list[int], seed: int) -> None:
    starts = np.random.default_rng(seed).integers(-3, 4, len(sizes))
    space = spaces.MultiDiscrete(sizes, start=starts)
    coder = make_action_coder(space, "game")
    count = int(np.prod(sizes))
    actions = coder.decode(np.arange(count))
    assert all(space.contains(action) for action in actions)
    assert len({tuple(action) for action in actions}) == count
    assert len(coder.names) == coder.num_actions == sum(sizes)


def test_bins_reach_from_low_to_high() -> None:
    space = spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 1.0], np.float32))
    coder = make_action_coder(space, "game", bins=3)
    expected = [[x, y] for x in (-2.0, 0.0, 2.0) for y in (0.0, 0.5, 1.0)]
    np.testing.assert_allclose(coder.decode(np.arange(9)), expected)
    assert coder.names[2:4] == ("part 0: 2", "part 1: 0")
    single = make_action_coder(spaces.Box(-2.0, 2.0, (1,)), "game", bins=5)
    assert (single.num_actions, single.branches) == (5, ())
    np.testing.assert_allclose(single.decode(np.arange(5)), [[-2], [-1], [0], [1], [2]])


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(1, 4), min_size=2, max_size=4), st.integers(0, 1000))
def test_the_first_legal_action(sizes: list[int], seed: int) -> None:
    mask = np.random.default_rng(seed).random((6, sum(sizes))) < 0.4
    coder = make_action_coder(spaces.MultiDiscrete(sizes), "game")
    parts = np.split(mask, np.cumsum(sizes)[:-1], axis=1)
    for row in range(6):
        possible = all(part[row].any() for part in parts)
        assert coder.has_legal(mask)[row] == possible
        if possible:
            own = coder.decode(coder.first_legal(mask))[row]
            assert own.tolist() == [int(part[row].argmax()) for part in parts]


def test_a_part_without_a_legal_choice_is_named() -> None:
    import space_envs
    from gymnasium.vector import SyncVectorEnv

    from flashdqn.envs.gymnasium.env import GymVecEnv

    class Stuck(space_envs.Knobs):
        def info(self) -> dict[str, Any]:
            return {"action_mask": np.array([1, 1, 1, 0, 0, 0, 0, 1, 1])}

    with pytest.raises(EnvError, match="without a legal action for environment 0"):
        GymVecEnv(SyncVectorEnv([Stuck]), "stuck")

    class Narrow(space_envs.Knobs):
        def info(self) -> dict[str, Any]:
            return {"action_mask": np.ones(24)}

    with pytest.raises(
        EnvError, match=r"must have the shape \[9\], .* is an array of float64 of shape \[24\]"
    ):
        GymVecEnv(SyncVectorEnv([Narrow]), "narrow")


@pytest.mark.parametrize(
    ("which", "more", "message"),
    [
        ("tuple action", {}, "of the kind Tuple. A Discrete, MultiDiscrete or MultiBinary space is needed"),
        ("endless action", {"action_bins": 3}, "without bounds"),
        ("endless action", {}, "--env.action-bins 7"),
        ("many actions", {}, r"100 parts with more than 2\^62 combinations"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_way_out(
    which: str, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(EnvError, match=message):
        flashdqn.make_env("gym:space_envs:Odd", 1, kwargs={"which": which}, **more)


def test_bins_where_nothing_is_continuous_are_refused() -> None:
    with pytest.raises(EnvError, match=r"leave out --env\.action-bins"):
        flashdqn.make_env("gym:CartPole-v1", 1, action_bins=3)
    with pytest.raises(ConfigError, match=r"env\.action_bins must be 0 or at least 2"):
        flashdqn.make_env("gym:Pendulum-v1", 1, action_bins=1)


def test_workers_take_actions_of_every_form() -> None:
    for name, kwargs, more, _ in (GAMES[1], GAMES[6]):
        here = flashdqn.make_env(f"gym:space_envs:{name}", 2, kwargs=kwargs, vectorization="sync", **more)
        there = flashdqn.make_env(
            f"gym:space_envs:{name}", 2, kwargs=kwargs, vectorization="async", workers=2, **more
        )
        try:
            assert torch.equal(here.reset(3), there.reset(3))
            for _ in range(6):
                action = torch.zeros(2, dtype=torch.int64)
                if here.mask is not None:
                    own = here.vector.actions.first_legal(here.mask.numpy())  # type: ignore[attr-defined]
                    action = torch.from_numpy(own)
                one, other = here.step(action), there.step(action)
                assert torch.equal(one.obs, other.obs)
                assert torch.equal(one.reward, other.reward)
        finally:
            there.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([2**31, 2]), spaces.MultiDiscrete([1] * 10**6)])
def test_hostile_actions_take_no_memory(space: spaces.MultiDiscrete) -> None:
    with pytest.raises(EnvError, match="fewer"):
        make_action_coder(space, "it")
