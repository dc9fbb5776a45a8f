"""Gymnasium environments to our contract: every autoreset rule against environments stepped by hand, action masks,
workers that fail."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gym_envs import STOP, Showing, Walk
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from torch import Tensor

import flashdqn
from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.envs import VecEnv, check_env
from flashdqn.envs.gymnasium.env import GymVecEnv
from flashdqn.envs.gymnasium.processes import ProcessVector

MODES = list(AutoresetMode)
KINDS = [SyncVectorEnv, AsyncVectorEnv]

Make = Callable[[], gymnasium.Env[Any, Any]]


def vectors(make: Make, num_envs: int, mode: AutoresetMode, kind: Any = SyncVectorEnv) -> GymVecEnv:
    return GymVecEnv(kind([make] * num_envs, autoreset_mode=mode, copy=False), "walk", timeout=30.0)


def draw(env: VecEnv, generator: torch.Generator) -> Tensor:
    luck = torch.rand((env.num_envs, env.num_actions), generator=generator)
    return luck.argmax(1) if env.mask is None else luck.masked_fill(~env.mask, -1.0).argmax(1)


class ByHand:
    """One environment, stepped as our rule says."""

    def __init__(self, env: gymnasium.Env[Any, Any], first: int = 0) -> None:
        self.env, self.first, self.over = env, first, False
        self.obs, self.info = env.reset()
        self.score = 0.0

    def step(self, action: int) -> tuple[Any, float, bool, bool]:
        if self.over:
            self.obs, self.info = self.env.reset()
            self.over, self.score = False, 0.0
            return self.obs, 0.0, False, False
        self.obs, reward, terminated, truncated, self.info = self.env.step(action + self.first)
        self.over, self.score = terminated or truncated, self.score + float(reward)
        return self.obs, float(reward), terminated, truncated and not terminated


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("masked", [False, True])
def test_autoreset_rules_equal_hand_stepping(mode: AutoresetMode, kind: Any, masked: bool) -> None:
    make = functools.partial(Walk, limit=4, masked=masked, first=5)
    env, hands = vectors(make, 3, mode, kind), [ByHand(make(), 5) for _ in range(3)]
    generator = torch.Generator().manual_seed(1)
    obs = env.reset(3)
    seen = {"terminated": 0, "truncated": 0, "both": 0}
    for _ in range(60):
        np.testing.assert_array_equal(obs.numpy(), np.stack([hand.obs for hand in hands]))
        if masked:
            assert env.mask is not None
            expected = np.stack([hand.info["action_mask"] for hand in hands]) != 0
            np.testing.assert_array_equal(env.mask.numpy(), expected)
        action = draw(env, generator)
        step = env.step(action)
        for i, hand in enumerate(hands):
            _, reward, terminated, truncated = hand.step(int(action[i]))
            got = float(step.reward[i]), bool(step.terminated[i]), bool(step.truncated[i])
            assert got == (reward, terminated, truncated)
            if hand.over:
                assert float(env.outcomes[i, 0]) == hand.score
                seen["terminated"] += terminated
                seen["truncated"] += truncated
                seen["both"] += terminated and hand.obs[0] == 4
        obs = step.obs
    assert min(seen.values()) > 0, seen
    env.close()


@pytest.mark.parametrize("mode", MODES)
def test_no_transition_of_cartpole_is_false(mode: AutoresetMode) -> None:
    """Random starts cannot be repeated by hand, but the physics can: from every observation to the next."""
    make = functools.partial(gymnasium.make, "CartPole-v1", max_episode_steps=12, disable_env_checker=True)
    env, physics = vectors(make, 4, mode), gymnasium.make("CartPole-v1").unwrapped
    physics.reset(seed=0)
    generator = torch.Generator().manual_seed(0)
    obs, over = env.reset(0), torch.zeros(4, dtype=torch.bool)
    starts, ends = 0, {"terminated": 0, "truncated": 0}
    for _ in range(150):
        action = torch.where(
            torch.rand(4, generator=generator) < 0.3, draw(env, generator), torch.tensor([0, 1, 0, 1])
        )
        step = env.step(action)
        for i in range(4):
            if over[i]:
                assert step.obs[i].abs().max() <= 0.05
                assert not step.terminated[i]
                assert not step.truncated[i]
                starts += 1
                continue
            physics.state, physics.steps_beyond_terminated = obs[i].double().numpy(), None  # type: ignore[attr-defined]
            expected, _, terminated, _, _ = physics.step(int(action[i]))
            np.testing.assert_allclose(step.obs[i].numpy(), expected, atol=1e-5)
            assert bool(step.terminated[i]) == terminated
        ends["terminated"] += int(step.terminated.sum())
        ends["truncated"] += int(step.truncated.sum())
        obs, over = step.obs, step.terminated | step.truncated
    assert min(starts, *ends.values()) > 3


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("masked", [False, True])
def test_the_contract_is_kept(mode: AutoresetMode, masked: bool) -> None:
    report = check_env(vectors(functools.partial(Walk, limit=4, masked=masked), 3, mode), steps=60)
    assert report.terminated > 0
    assert report.truncated > 0
    assert any("resumable" in note for note in report.notes)


@pytest.mark.parametrize("name", ["CartPole-v1", "Acrobot-v1", "Taxi-v4", "Blackjack-v1", "CliffWalking-v1"])
def test_gymnasiums_own_environments_keep_the_contract(name: str) -> None:
    check_env(flashdqn.make_env(f"gym:{name}", 3), steps=80)


def test_a_vectorized_version_is_taken_where_there_is_one() -> None:
    own = flashdqn.make_env("gym:CartPole-v1", 2)
    plain = flashdqn.make_env("gym:CartPole-v1", 2, vectorization="sync")
    assert isinstance(own, GymVecEnv)
    assert isinstance(plain, GymVecEnv)
    assert type(own.vector.env).__name__ == "CartPoleVectorEnv"
    assert isinstance(plain.vector.env, SyncVectorEnv)


def test_rows_have_seeds_of_their_own_and_repeat() -> None:
    env = flashdqn.make_env("gym:Acrobot-v1", 4)
    first = env.reset(7)
    assert len({tuple(row.tolist()) for row in first}) == 4
    assert torch.equal(env.reset(7), first)
    assert not torch.equal(env.reset(8), first)


def test_processes_play_the_same_games() -> None:
    here = flashdqn.make_env("gym:Acrobot-v1", 3, vectorization="sync", max_steps=7)
    there = flashdqn.make_env("gym:Acrobot-v1", 3, vectorization="async", max_steps=7)
    assert torch.equal(here.reset(5), there.reset(5))
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        action = draw(here, generator)
        for one, other in zip(here.step(action), there.step(action), strict=True):
            assert (one is None and other is None) or torch.equal(one, other)
    there.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("how", "kind", "message"),
    [
        ("raise", "sync", r"raised ZeroDivisionError: no more \(in .*gym_envs.py, line \d+\)"),
        ("raise", "async", r"raised ZeroDivisionError: no more \(in .*gym_envs.py, line \d+\)"),
        ("die", "async", "a worker process died .*7"),
        ("hang", "async", "has not answered for 0.5 s.*--env.timeout"),
    ],
)
def test_environments_that_fail_are_named(how: str, kind: str, message: str) -> None:
    env = flashdqn.make_env(
        "gym_envs:make_faulty",
        2,
        vectorization=kind,
        kwargs={"how": how},
        timeout=0.5 if how == "hang" else 30.0,
    )
    env.reset(0)
    go = torch.zeros(2, dtype=torch.int64)
    env.step(go)
    env.step(go)
    with pytest.raises(EnvError, match=f"gym_envs:make_faulty.*{message}"):
        env.step(go)
    if kind == "async":
        assert isinstance(env, GymVecEnv)
        assert isinstance(env.vector.env, ProcessVector)
        assert not any(process.is_alive() for process in env.vector.env.processes)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (spaces.Box(-1, 1, (2,)), "continuous: .* --env.action-bins 7"),
        (spaces.Tuple((spaces.Discrete(2), spaces.Discrete(3))), "of the kind Tuple"),
    ],
)
def test_other_actions_are_refused(actions: spaces.Space[Any], message: str) -> None:
    with pytest.raises(EnvError, match=message):
        vectors(lambda: Showing(spaces.Discrete(2), actions), 2, AutoresetMode.NEXT_STEP)


def test_a_vector_environment_must_say_how_it_resets() -> None:
    env = SyncVectorEnv([Walk])
    env.metadata = {}
    with pytest.raises(EnvError, match="does not say how it resets"):
        GymVecEnv(env)


def test_a_reset_that_takes_all_rows_is_noticed() -> None:
    class Careless(SyncVectorEnv):  # type: ignore[type-arg]
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            return super().reset(seed=seed)

    env = GymVecEnv(Careless([Walk] * 2, autoreset_mode=AutoresetMode.DISABLED), "careless")
    env.reset(0)
    env.step(torch.tensor([STOP, 0]))
    with pytest.raises(EnvError, match="careless resets by the rule"):
        env.step(torch.tensor([0, 0]))


class _Forgetful(Walk):
    """Gives a mask only at times: in resets, in steps, or everywhere but at the end."""

    def __init__(self, where: str) -> None:
        super().__init__(limit=2, masked=True)
        self.where = where

    def _info(self) -> dict[str, Any]:
        there = {"reset": self.time == 0, "step": self.time > 0, "middle": self.time < self.limit}
        return super()._info() if there[self.where] else {}


@pytest.mark.parametrize(
    ("where", "message"),
    [("reset", "must come with every observation"), ("step", "it must do so in reset too")],
)
def test_masks_come_always_or_never(where: str, message: str) -> None:
    env = vectors(lambda: _Forgetful(where), 2, AutoresetMode.NEXT_STEP)
    env.reset(0)
    with pytest.raises(EnvError, match=message):
        env.step(torch.tensor([0, 1]))


def test_unknown_names_are_refused_in_a_sentence() -> None:
    cases = {
        "gym:CartPole-v7": "did you mean 'CartPole-v",
        "gym:LunarLander-v2": "did you mean 'LunarLander-v3'",
        "gym:cartpol-v1": "did you mean 'CartPole-v1'",
        "gym:Pong-v5": "is its package installed?|did you mean 'ALE/Pong-v5'",  # with ale_py imported, or without
        "gym:no_such_module:make": "There is no module 'no_such_module'",
        "gym_envs:make_wlak": "neither a function 'make_wlak'",
        "gym_envs:not_a_function": "neither a function 'not_a_function'",
        "gym:": "must name a Gymnasium environment",
    }
    for name, message in cases.items():
        with pytest.raises(ConfigError, match=message):
            flashdqn.make_env(name, 2)
    with pytest.raises(EnvError, match=r"must return a gymnasium\.Env, and returned a object"):
        flashdqn.make_env("gym_envs:make_nothing", 2)
    with pytest.raises(EnvError, match="cannot be made: TypeError"):
        flashdqn.make_env("gym:Acrobot-v1", 2, kwargs={"color": "red"})


@pytest.mark.parametrize("mode", MODES)
def test_a_truncated_end_needs_its_mask(mode: AutoresetMode) -> None:
    """One bootstraps from there, over the legal actions; a terminated end needs none."""
    env = vectors(lambda: _Forgetful("middle"), 2, mode)
    env.reset(0)
    env.step(torch.tensor([0, 0]))
    with pytest.raises(EnvError, match="must come with every observation"):
        env.step(torch.tensor([STOP, 1]))
    env.reset(0)
    env.step(torch.tensor([0, 0]))
    assert env.step(torch.tensor([STOP, STOP])).terminated.all()


def test_an_environment_that_goes_on_after_loading_breaks_the_contract() -> None:
    class Stubborn(GymVecEnv):
        def load_state_dict(self, state: Any) -> None:
            pass

    class Forgetful(GymVecEnv):
        def load_state_dict(self, state: Any) -> None:
            super().load_state_dict({"seed": torch.tensor(self._seed), "steps": torch.tensor(0)})

    with pytest.raises(EnvError, match="the step after an end starts a new episode"):
        check_env(Stubborn(SyncVectorEnv([Walk])), steps=20)
    with pytest.raises(EnvError, match="must start new episodes that follow from the state alone"):
        check_env(Forgetful(SyncVectorEnv([lambda: gymnasium.make("Acrobot-v1")])), steps=20)
