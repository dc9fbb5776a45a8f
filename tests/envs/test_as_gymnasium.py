"""Our tasks in Gymnasium: its own checks, the same games as ours, true batches, masks and pictures."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env as gymnasium_check
from gymnasium.vector import AutoresetMode

import flashdqn
from flashdqn.as_gymnasium.batch import GameVectorEnv
from flashdqn.as_gymnasium.names import NAMES
from flashdqn.as_gymnasium.single import OneGame
from flashdqn.core.errors import ConfigError, EnvError
from flashdqn.envs import VecEnv, build_env
from flashdqn.envs.tasks import TASKS, find_task

SNAKE, SFC, FUEL = "flashdqn/Snake-v0", "flashdqn/SFC-v0", "flashdqn/FuelBreaks-v0"
SMALL_FUEL = {"size": 8, "landscapes": 2, "held_out": 1, "fires": 5, "weathers": ("dry@0",)}
SMALL_SFC = {"max_dcs": 3, "max_bundles": 1, "actions_per_step": 4}


def own(name: str, count: int, settings: dict[str, Any]) -> VecEnv:
    """The task with its own defaults, not a preset's."""
    return build_env(find_task(NAMES[name]).config(**settings), count, torch.device("cpu"))


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        (SNAKE, {"size": 6, "features": "enhanced", "render_mode": "ansi"}),
        (SNAKE, {"size": 5, "features": "grid", "actions": "absolute", "render_mode": "rgb_array"}),
        (SFC, {"render_mode": "rgb_array"} | SMALL_SFC),
        (FUEL, {"render_mode": "rgb_array"} | SMALL_FUEL),
    ],
)
def test_gymnasium_has_nothing_to_complain_of(name: str, settings: dict[str, Any]) -> None:
    env = gymnasium.make(name, **settings)
    gymnasium_check(env.unwrapped)  # a warning would be an error here
    env.close()


def test_every_name_stands_for_a_task() -> None:
    assert set(NAMES.values()) <= set(TASKS)
    assert set(NAMES) <= set(gymnasium.registry)


def test_what_is_stored_in_another_form_is_decoded() -> None:
    env = gymnasium.make(FUEL, **SMALL_FUEL)
    ours = own(FUEL, 1, SMALL_FUEL)
    stored = ours.reset(4)
    obs, info = env.reset(seed=4)
    assert obs.shape == (17, 8, 8)
    assert np.array_equal(obs, ours.decoder(stored)[0].numpy())  # type: ignore[attr-defined]
    assert info["action_mask"].shape == (64,)
    batch, infos = gymnasium.make_vec(FUEL, 3, **SMALL_FUEL).reset(seed=4)
    assert batch.shape == (3, 17, 8, 8)
    assert infos["action_mask"].shape == (3, 64)


@pytest.mark.parametrize(("name", "settings"), [(SNAKE, {"size": 5, "hunger": 0.5}), (SFC, SMALL_SFC)])
def test_the_same_seed_gives_the_games_of_our_batch_of_one(name: str, settings: dict[str, Any]) -> None:
    ours = own(name, 1, settings)
    theirs = gymnasium.make(name, **settings)
    rng = np.random.default_rng(0)
    expected = ours.reset(11)
    obs, info = theirs.reset(seed=11)
    ends = 0
    for _ in range(1500):
        assert np.array_equal(obs, expected[0].numpy())
        legal = info.get("action_mask", np.ones(ours.num_actions, np.int8))
        if ours.mask is not None:
            assert np.array_equal(legal, ours.mask[0].numpy())
        action = int(rng.choice(np.flatnonzero(legal)))
        step = ours.step(torch.tensor([action]))
        obs, reward, terminated, truncated, info = theirs.step(action)
        assert (reward, terminated, truncated) == (
            float(step.reward[0]),
            bool(step.terminated[0]),
            bool(step.truncated[0]),
        )
        expected = step.obs
        if terminated or truncated:
            ends += 1
            assert info["outcomes"] == dict(zip(ours.outcome_names, ours.outcomes[0].tolist(), strict=True))
            assert np.array_equal(obs, expected[0].numpy())  # the true last observation
            expected = ours.step(torch.tensor([0])).obs  # our next step starts the next game: so does reset()
            obs, info = theirs.reset()
        else:
            assert "outcomes" not in info
    assert ends > 0


def test_a_reset_in_the_middle_starts_a_new_game() -> None:
    env = gymnasium.make(SNAKE, size=6, start="random")
    first, _ = env.reset(seed=3)
    env.step(0)
    middle, _ = env.reset()
    again, _ = env.reset(seed=3)
    env.step(0)
    assert np.array_equal(env.reset()[0], middle)  # drawn from the seed too
    assert np.array_equal(first, again)


def test_no_step_without_a_reset() -> None:
    env = OneGame("snake", size=5)
    with pytest.raises(ResetNeeded, match=r"call reset\(\)"):
        env.step(0)
    env.reset(seed=0)
    while not any(env.step(0)[2:4]):
        pass
    with pytest.raises(ResetNeeded, match="The episode is over"):
        env.step(0)


@pytest.mark.parametrize(("name", "settings"), [(SNAKE, {"size": 5, "hunger": 0.5}), (SFC, SMALL_SFC)])
def test_a_batch_is_our_batch(name: str, settings: dict[str, Any]) -> None:
    count = 6
    ours = own(name, count, settings)
    theirs = gymnasium.make_vec(name, count, vectorization_mode="vector_entry_point", **settings)
    assert isinstance(theirs.unwrapped, GameVectorEnv)
    assert theirs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    rng = np.random.default_rng(0)
    expected = ours.reset(5)
    obs, infos = theirs.reset(seed=5)
    assert theirs.observation_space.contains(obs)
    ended = 0
    for _ in range(600):
        assert np.array_equal(obs, expected.numpy())
        legal = np.ones((count, ours.num_actions))
        if ours.mask is not None:
            legal = infos["action_mask"]
            assert np.array_equal(legal, ours.mask.numpy())
            assert infos["_action_mask"].all()
        actions = np.array([rng.choice(np.flatnonzero(row)) for row in legal])
        kept = obs.copy()
        step = ours.step(torch.from_numpy(actions))
        old, (obs, rewards, terminated, truncated, infos) = obs, theirs.step(actions)
        assert np.array_equal(old, kept)  # what was handed out is not overwritten
        assert rewards.dtype == np.float64
        assert np.array_equal(rewards, step.reward.numpy())
        assert np.array_equal(terminated, step.terminated.numpy())
        assert np.array_equal(truncated, step.truncated.numpy())
        over = terminated | truncated
        ended += over.sum()
        assert over.any() == ("outcomes" in infos)
        if over.any():
            assert np.array_equal(infos["_outcomes"], over)
            for k, outcome in enumerate(ours.outcome_names):
                assert np.array_equal(infos["outcomes"][outcome][over], ours.outcomes[over, k].numpy())
        expected = step.obs
    assert ended > 0


def test_our_own_trainer_takes_them_back() -> None:
    back = flashdqn.make_env("gym:flashdqn/Snake-v0", 4, kwargs={"size": 5, "hunger": 0.5})
    report = flashdqn.envs.check_env(back, steps=100)
    assert report.terminated > 0
    assert report.truncated > 0


def test_copies_one_after_the_other_work_too() -> None:
    envs = gymnasium.make_vec(SNAKE, 2, vectorization_mode="sync", size=5)
    obs, _ = envs.reset(seed=1)
    assert obs.shape == (2, 14)
    for _ in range(30):
        envs.step(envs.action_space.sample())
    envs.close()


def test_pictures() -> None:
    text = gymnasium.make(SNAKE, size=5, render_mode="ansi")
    text.reset(seed=0)
    board = text.render()
    assert isinstance(board, str)
    assert len(board.splitlines()) >= 5
    env = gymnasium.make(SNAKE, size=5, render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    assert isinstance(before, np.ndarray)
    assert before.shape == (480, 480, 3)
    assert before.dtype == np.uint8
    env.step(0)
    assert not np.array_equal(before, env.render())  # the snake has moved
    silent = OneGame("snake", size=5)
    assert silent.render() is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 3}, "in 4 … 32"),
        ({"sise": 6}, "did you mean 'size'"),
        ({"features": "all"}, "basic, flood"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, Any], message: str) -> None:
    for make in (lambda: gymnasium.make(SNAKE, **settings), lambda: gymnasium.make_vec(SNAKE, 2, **settings)):
        with pytest.raises(ConfigError, match=message):
            make()


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="render_mode must be one of"):
        OneGame("snake", render_mode="human")
    with pytest.raises(ConfigError, match="cannot be drawn"):
        GameVectorEnv("snake", 2, render_mode="rgb_array")
    with pytest.raises(EnvError, match="One seed serves all games"):
        GameVectorEnv("snake", 2, size=5).reset(seed=[1, 2])  # type: ignore[arg-type]


def test_names_are_known_by_import_or_by_prefix() -> None:
    env: Any = gymnasium.make("flashdqn:flashdqn/Snake-v0", size=6)  # imports flashdqn by itself
    assert env.unwrapped.game.config.size == 6
    code = """
import sys
if {missing}:
    sys.modules["gymnasium"] = None
    import flashdqn
    assert flashdqn.__version__
else:
    import flashdqn, gymnasium
    assert "flashdqn/SFC-v0" in gymnasium.registry and "torch" not in sys.modules
"""
    for missing in (True, False):
        words = [sys.executable, "-c", code.format(missing=missing)]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
