"""Atari games: frames, episodes and scores against the emulator stepped by hand, in every kind of vector."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from torch import Tensor

import flashdqn
from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.core.types import Step
from flashdqn.envs import GymConfig, VecEnv, build_evaluation_env, check_env
from flashdqn.envs.frame_stack import FrameStack
from flashdqn.envs.gymnasium.config import MAX_FRAMES, AtariConfig
from flashdqn.envs.gymnasium.env import GymVecEnv

pytest.importorskip("ale_py")

from ale_py.vector_env import AtariVectorEnv
from atari_twin import AtariTwin

from flashdqn.envs.gymnasium.atari import AtariFrames, ale_settings, step_limit

CPU = torch.device("cpu")


def frames(game: str = "Breakout", num_envs: int = 2, **more: Any) -> GymVecEnv:
    """Single frames, rewards as they are."""
    given = {"stack": 1, "clip_reward": 0.0} | more
    env = flashdqn.make_env(f"gym:ALE/{game}-v5", num_envs, **given)
    assert isinstance(env, GymVecEnv)
    return env


def draws(env: VecEnv, steps: int, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(env.num_actions, (env.num_envs,), generator=generator) for _ in range(steps)]


def seeds_of(seed: int, num_envs: int) -> list[int]:
    return [s % 2**31 for s in np.random.SeedSequence(seed).generate_state(num_envs).tolist()]


def same(one: Step, other: Step) -> None:
    for a, b in zip(one, other, strict=True):
        assert (a is None and b is None) or torch.equal(a, b)


@pytest.mark.parametrize(("game", "sticky"), [("Breakout", 0.25), ("Pong", 0.0)])
def test_frames_are_those_of_the_emulator(game: str, sticky: float) -> None:
    """Four frames to a step, the brighter of the last two, shrunk by area, sticky actions: but for rounding."""
    env = frames(game, 2, **{"atari.sticky": sticky})
    config = AtariConfig(sticky=sticky)
    twins = [AtariTwin(game.lower(), config, seed) for seed in seeds_of(5, 2)]
    obs = env.reset(5)
    for i, twin in enumerate(twins):
        assert np.abs(obs[i, 0].numpy() - twin.observe()).max() < 1
    for action in draws(env, 80):
        step = env.step(action)
        for i, twin in enumerate(twins):
            picture, reward, over = twin.step(int(action[i]))
            assert np.abs(step.obs[i, 0].numpy() - picture).max() < 1
            assert float(step.reward[i]) == reward
            assert bool(step.terminated[i]) == over
        if step.terminated.any():
            return


def test_all_kinds_of_vectors_play_the_same_games() -> None:
    """Native threads, this process, worker processes: through truncations, terminations and no-op starts."""
    more = {"max_steps": 40, "atari.noops": 12, "stack": 4, "clip_reward": 1.0}
    kinds = [
        flashdqn.make_env("gym:ALE/Breakout-v5", 3, vectorization=kind, workers=2, **more)
        for kind in ("auto", "sync", "async")
    ]
    for env in kinds[1:]:
        assert torch.equal(kinds[0].reset(3), env.reset(3))
        assert env.obs_spec == kinds[0].obs_spec
    kinds[0].reset(3)
    truncated = 0
    for action in draws(kinds[0], 90):
        first, *others = (env.step(action) for env in kinds)
        for env, other in zip(kinds[1:], others, strict=True):
            same(first, other)
            assert torch.equal(env.outcomes, kinds[0].outcomes)
        truncated += int(first.truncated.sum())
    assert truncated >= 6
    for env in kinds:
        env.close()  # type: ignore[attr-defined]


def test_a_time_limit_truncates_with_the_true_last_frame() -> None:
    config = GymConfig(id="ALE/Pong-v5", max_steps=9)
    short, long = frames("Pong", 1, max_steps=9), frames("Pong", 1)
    assert step_limit(config) == 9
    assert step_limit(GymConfig(id="ALE/Pong-v5")) == MAX_FRAMES / 4 == 27_000
    first = short.reset(0)
    assert torch.equal(first, long.reset(0))
    actions = draws(short, 10)
    for number, action in enumerate(actions[:9], 1):
        step, other = short.step(action), long.step(action)
        assert torch.equal(step.obs, other.obs)
        assert not step.terminated.any()
        assert bool(step.truncated) == (number == 9)
    step = short.step(actions[9])
    assert torch.equal(step.obs, first)
    assert float(step.reward) == 0


@pytest.mark.parametrize("max_steps", [25, 400])
def test_both_of_its_autoreset_rules_are_translated(max_steps: int) -> None:
    """Without chance in the game, a further reset changes nothing: the two must give the same, bit by bit."""
    given = ale_settings(GymConfig(id="ALE/Breakout-v5", atari=AtariConfig(sticky=0.0)), threads=1)
    given |= {"max_num_frames_per_episode": 4 * max_steps}
    one, other = (
        GymVecEnv(AtariVectorEnv("breakout", 3, **given, autoreset_mode=mode), "breakout")
        for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)
    )
    assert other.vector.mode == AutoresetMode.SAME_STEP
    assert torch.equal(one.reset(1), other.reset(1))
    ends = {"terminated": 0, "truncated": 0}
    for action in draws(one, 60 if max_steps == 25 else 330):
        first = one.step(action)
        same(first, other.step(action))
        ends["terminated"] += int(first.terminated.sum())
        ends["truncated"] += int(first.truncated.sum())
    assert ends["truncated" if max_steps == 25 else "terminated"] > 0


@pytest.mark.parametrize("kind", ["auto", "sync"])
def test_a_lost_life_ends_an_episode_but_no_game(kind: str) -> None:
    """Beside the same game without it, in which the ignored action is a no-op."""
    lives = frames("Breakout", 1, vectorization=kind, **{"atari.life_loss": True, "atari.sticky": 0.0})
    whole = frames("Breakout", 1, **{"atari.sticky": 0.0})
    assert torch.equal(lives.reset(0), whole.reset(0))
    starting, ends, over = torch.tensor([False]), 0, False
    for action in draws(whole, 400):
        step = lives.step(action)
        plain = whole.step(torch.where(starting & ~torch.tensor([over]), 0, action))
        assert torch.equal(step.obs, plain.obs)
        if starting:
            assert not step.terminated
            assert float(step.reward) == 0
        else:
            assert float(step.reward) == float(plain.reward)
            ends += int(step.terminated)
        starting, over = step.terminated, bool(plain.terminated)
        if over:
            break
    assert over
    assert ends == 5


def test_evaluation_plays_whole_games() -> None:
    config = GymConfig(id="ALE/Breakout-v5", atari=AtariConfig(life_loss=True))
    games = build_evaluation_env(config, 1, CPU)
    assert isinstance(games, GymVecEnv)
    assert games.lives is None


def test_rewards_are_clipped_and_scores_are_not() -> None:
    env = flashdqn.make_env("gym:ALE/MsPacman-v5", 2, max_steps=80)
    env.reset(0)
    returns, score = torch.zeros(2), torch.zeros(2)
    for action in draws(env, 80):
        step = env.step(action)
        assert step.reward.abs().max() <= 1
        returns += step.reward
        score = env.outcomes[:, 0].clone()
    assert step.truncated.all()
    assert torch.equal(score, 10 * returns)  # a pellet is 10 points


def test_what_gym_names_gives() -> None:
    env = flashdqn.make_env("gym:ALE/Pong-v5", 2)
    assert isinstance(env, FrameStack)
    assert env.obs_spec == flashdqn.envs.ObsSpec((4, 84, 84), torch.uint8, stack=4)
    assert env.num_actions == 6
    full = frames("Pong", 1, **{"atari.full_actions": True, "atari.size": 42})
    assert full.num_actions == 18
    assert full.obs_spec.shape == (1, 42, 42)
    raw = frames("Pong", 1, vectorization="sync", **{"atari.preprocess": False})
    assert raw.obs_spec.shape == (3, 210, 160)
    ram = frames("Pong", 1, vectorization="sync", kwargs={"obs_type": "ram"}, **{"atari.preprocess": False})
    assert ram.obs_spec.shape == (128,)


def test_the_contract_is_kept() -> None:
    report = check_env(flashdqn.make_env("gym:ALE/Breakout-v5", 2, max_steps=40), steps=90)
    assert report.truncated >= 2


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigError, match=r"env.atari.sticky must lie in 0 … 1"):
        AtariConfig(sticky=2)
    with pytest.raises(ConfigError, match=r"env.atari.frame_skip must be at least 1"):
        AtariConfig(frame_skip=0)
    with pytest.raises(ConfigError, match="did you mean 'ALE/Pong-v5'"):
        flashdqn.make_env("gym:ALE/Pnog-v5", 1)
    with pytest.raises(EnvError, match=r"ALE/Pong-v5 cannot be made: TypeError.*'color'"):
        flashdqn.make_env("gym:ALE/Pong-v5", 1, kwargs={"color": 1})
    with pytest.raises(EnvError, match=r"no info\['lives'\]"):
        flashdqn.make_env("gym:CartPole-v1", 1, **{"atari.life_loss": True})


def test_a_row_that_is_reset_after_its_end_is_not_reset_twice() -> None:
    """As a life that ends a game between two episodes needs it."""
    config = GymConfig(id="ALE/Breakout-v5", atari=AtariConfig(sticky=0.0))
    vector = AtariFrames("breakout", config, 2, threads=1)
    vector.reset(seed=[1, 2])
    over, generator = np.zeros(2, dtype=np.bool_), np.random.default_rng(0)
    while not over.any():
        *_, over, _, _ = vector.step(generator.integers(0, 4, 2))
    vector.reset(options={"reset_mask": over})
    *_, info = vector.step(np.ones(2, dtype=np.int64))
    assert info["episode_frame_number"][over].tolist() == [4] * int(over.sum())
