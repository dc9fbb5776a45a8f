"""PQN: rollouts instead of a replay, on the same loop.

test_family.py has it with λ = 0, whose answer is Q* whatever the behavior. With λ > 0 it learns the fixed point of
Peng's operator, under the behavior: Q = r + γ [λ E_μ Q(s', ·) + (1 − λ) max Q(s', ·)].
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from small_training import ENVS, GAMMA, mean_q, trained
from torch import Tensor
from toy_envs import Chain, Crossing, MaskedBandit

import flashdqn
from conftest import TINY
from flashdqn import ConfigError, Run
from flashdqn.config import Config, LearnConfig
from flashdqn.config.presets import base_config
from flashdqn.config.settings import apply_settings
from flashdqn.learn.adam import Adam
from flashdqn.learn.algorithms import apply_algorithm
from flashdqn.learn.flat import Flat
from flashdqn.runs import checkpoint

BOUND = 0.05  # on |Q − answer|, for values of 1 to 5
TRACE = 0.65
ROLLOUT = {"learn.method": "pqn", "learn.optimizer": "radam", "pqn.rollout": 20, "pqn.minibatches": 4}


def peng_chain(states: int, rollout: int) -> Tensor:
    """The fixed point under a random walk, [S, A]; k steps before the rollout's end the return is k steps long."""
    reached = (torch.arange(states)[:, None] + torch.tensor([-1, 1])).clamp(0, states - 1)  # [S, A]
    arrived = (reached == states - 1).float()
    q = torch.zeros(states, 2)
    for _ in range(60):
        best, walked = q.amax(1), q.amax(1)
        lengths = []
        for _ in range(rollout):
            ahead = TRACE * walked + (1 - TRACE) * best
            lengths.append(arrived + GAMMA * (1 - arrived) * ahead[reached])
            walked = lengths[-1].mean(1)
        q = torch.stack(lengths).mean(0)
    return q


def test_long_returns_find_the_fixed_point_of_their_operator(tmp_path: Path) -> None:
    env = Chain(ENVS, num_states=4, time_limit=None)
    q = mean_q(trained(env, tmp_path, "pqn", eps=1.0, pqn__trace=TRACE), 4)[:-1]
    expected = peng_chain(4, rollout=32)[:-1]
    assert (expected - env.q_star(GAMMA)[:-1]).abs().max() > 2 * BOUND  # or it would show nothing
    torch.testing.assert_close(q, expected, rtol=0, atol=BOUND)


@pytest.mark.parametrize("ending", ["terminated", "truncated"])
def test_ends_cut_long_returns(tmp_path: Path, ending: Literal["terminated", "truncated"]) -> None:
    env = Crossing(ending, ENVS)
    q = mean_q(trained(env, tmp_path, "pqn", eps=0.5, pqn__trace=1.0), 1)
    torch.testing.assert_close(q, env.q_star(GAMMA), rtol=0, atol=BOUND)


def test_masks_count_in_long_returns(tmp_path: Path) -> None:
    env = MaskedBandit(ENVS, time_limit=1)
    q = mean_q(trained(env, tmp_path, "pqn", eps=0.5, pqn__trace=TRACE), 3)
    torch.testing.assert_close(q[env.legal], env.q_star(GAMMA)[env.legal], rtol=0, atol=BOUND)


def test_it_trains_snake_and_says_its_ratio(tmp_path: Path) -> None:
    tiny = {**TINY, "steps": 4000, "out": str(tmp_path)}
    run = flashdqn.train("snake", algo="pqn", progress=False, **tiny)
    rollouts, rest = divmod(run.summary["updates"], 2 * 32)
    assert (rollouts > 5, rest) == (True, 0)
    assert run.summary["train_ratio_asked"] == 2 * 32 / (32 * 16)
    assert run.summary["train_ratio"] == run.summary["updates"] / run.summary["steps"]
    assert run.config.learn.optimizer == "radam"


def test_it_plays_snake_better_than_chance(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"steps": 80_000, "envs": 32, "explore.over": 40_000, "eval.every": 0}
    quiet = {"out": str(tmp_path), "device": "cpu", "runtime.threads": 1, "log.tensorboard": False}
    run = flashdqn.train("snake-flood", algo="pqn", progress=False, **settings, **quiet)
    assert run.score > 10  # a random player has less than 1


def test_a_larger_budget_goes_on_inside_of_a_rollout(tiny_run: Callable[..., Run]) -> None:
    settings = {name.replace(".", "__"): value for name, value in ROLLOUT.items()}
    never, first = tiny_run(steps=2000, **settings), tiny_run(steps=1250, **settings)
    resumed = flashdqn.train(resume=first.path, steps=2000, progress=False)
    assert resumed.summary["weights"] == never.summary["weights"] != first.summary["weights"]
    assert tiny_run(steps=2000, **settings, seed=1).summary["weights"] != never.summary["weights"]


def test_a_checkpoint_holds_one_rollout_and_no_target(tiny_run: Callable[..., Run]) -> None:
    settings = {name.replace(".", "__"): value for name, value in ROLLOUT.items()}
    run = tiny_run(steps=1250, **settings)
    point = checkpoint.list_checkpoints(run.path / "checkpoints", with_state=True)[-1]
    _, state, _ = checkpoint.load_checkpoint(point, with_state=True)
    assert len(state["ring.obs"]) == 20 + 1
    assert 0 < int(state["sampler.steps"]) < 20
    assert not any(name.startswith("learner.target") for name in state)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"learn.head": "categorical"}, "learn.head scalar"),
        ({"learn.head": "quantile"}, "learn.head scalar"),
        ({"learn.head": "iqn"}, "learn.head scalar"),
        ({"learn.bootstrap": "munchausen"}, "log-policy"),
        ({"replay.priority": 0.5}, "no replay"),
        ({"replay.n_step": 3}, r"--pqn\.trace"),
        ({"pqn.minibatches": 33}, "does not divide into 33 minibatches"),
        ({"pqn.rollout": 0}, r"pqn\.rollout must be at least 1"),
        ({"pqn.trace": 1.5}, r"pqn\.trace must lie in 0 … 1"),
    ],
    ids=str,
)
def test_what_is_not_defined_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        apply_settings(apply_algorithm(base_config("snake"), "pqn"), change)


def test_another_algorithm_takes_its_place() -> None:
    again = apply_algorithm(apply_algorithm(Config(), "pqn"), "rainbow")
    assert again.learn.method == "replay"


def test_the_learning_rate_of_radam_follows_its_tensor() -> None:
    flat = Flat(torch.nn.Linear(3, 1))
    lr = torch.tensor(0.1)
    adam = Adam(LearnConfig(optimizer="radam"), flat, lr)
    moved = []
    for rate in (0.1, 0.0, 0.2):
        lr.fill_(rate)
        flat.gradient.fill_(1.0)
        before = flat.values.clone()
        adam.step()
        moved.append(float((before - flat.values)[0]))
    # before its variance is known (the first five steps) RAdam moves by lr times the mean gradient
    assert moved == pytest.approx([0.1, 0.0, 0.2])
