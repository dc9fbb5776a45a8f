"""Learning from prioritized samples: known values of tiny MDPs through the real loop, and the bias without β."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
import torch
from replay_twin import VECTOR
from torch import Tensor
from toy_envs import Chain, Crossing, MaskedBandit

from flashdqn.config import Config, ExploreConfig, LearnConfig, LogConfig, NetworkConfig, ReplayConfig
from flashdqn.core.contract import VecEnv
from flashdqn.core.types import Step
from flashdqn.replay import PrioritizedSampler, Ring
from flashdqn.runs.folder import RunFolder
from flashdqn.training.assemble import assemble_parts
from flashdqn.training.loop import Loop
from flashdqn.training.progress import Silent

GAMMA = 0.7
ENVS = 16


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def learned_q(env: VecEnv, states: int, folder: Path, n: int, alpha: float, eps: float) -> Tensor:
    """Q of the one-hot states, [S, A], after 400 updates, most of them with β = 1."""
    config = Config(
        envs=env.num_envs,
        train_ratio=0.25,
        seed=1,
        network=NetworkConfig(torso="mlp", hidden=(32,)),
        replay=ReplayConfig(capacity=1500, n_step=n, priority=alpha, beta_over=1000),
        learn=LearnConfig(
            gamma=GAMMA, batch_size=128, starts=500, lr=0.01, lr_end=0.0005, lr_over=2100, target_every=10
        ),
        explore=ExploreConfig(start=eps, end=eps),
        log=LogConfig(tensorboard=False),
    )
    parts = assemble_parts(config, env)
    assert isinstance(parts.sampler, PrioritizedSampler)
    loop = Loop(config, parts, RunFolder(folder), Silent(), games=env)
    loop.start()
    while parts.learner.updates < 400:
        loop.iterate()
    assert float(parts.sampler.beta) == 1
    with torch.no_grad():
        return parts.learner.head.q(parts.learner.online(torch.eye(states)))


@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_chain(tmp_path: Path, alpha: float) -> None:
    """Cut by a clock that no observation shows, and long enough to go round the ring."""
    env = Chain(ENVS, num_states=4, time_limit=7)
    q = learned_q(env, 4, tmp_path, n=1, alpha=alpha, eps=0.6)
    torch.testing.assert_close(q[:-1], env.q_star(GAMMA)[:-1], rtol=0, atol=0.03)


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("ending", ["terminated", "truncated"])
def test_crossing(tmp_path: Path, ending: Literal["terminated", "truncated"], n: int) -> None:
    env = Crossing(ending, ENVS)
    q = learned_q(env, 1, tmp_path, n=n, alpha=0.6, eps=0.5)
    torch.testing.assert_close(q, env.q_star(GAMMA), rtol=0, atol=0.03)


@pytest.mark.parametrize("n", [1, 3])
def test_masked_bandit(tmp_path: Path, n: int) -> None:
    env = MaskedBandit(ENVS, time_limit=10 if n == 1 else 1)
    q = learned_q(env, 3, tmp_path, n=n, alpha=0.6, eps=0.5)
    torch.testing.assert_close(q[env.legal], env.q_star(GAMMA)[env.legal], rtol=0, atol=0.05)


@pytest.mark.parametrize(("beta", "expected"), [(0.0, 0.25), (1.0, 0.1)])
def test_importance_weights_take_the_bias_away(beta: float, expected: float) -> None:
    """A reward of 1 in one of ten transitions, else 0; one number q learns to predict it with α = 1.

    With β = 1 the answer is the mean, 0.1. Without correction it is where Σ |r − q| (r − q) = 0:
    (1 − q)² = 9 q², q = 1/4.
    """
    no = torch.zeros(10, dtype=torch.bool)
    ring = Ring(1000, 10, VECTOR, 2, torch.device("cpu"))
    generator = torch.Generator().manual_seed(0)
    sampler = PrioritizedSampler(ring, 1, GAMMA, generator, alpha=1.0, beta=beta, eps=1e-4)
    ring.start(torch.zeros(10, 3))
    reward = torch.eye(10)[0]
    for _ in range(100):
        ring.append(torch.zeros(10, dtype=torch.int64), Step(torch.zeros(10, 3), reward, no, no))
        sampler.appended()
    q = torch.tensor(0.5)
    mean = []
    for update in range(1500):
        transition, weight, index, _ = sampler.sample(64)
        error = transition.reward - q
        sampler.update(index, error)
        q = q + 0.05 * (weight * error).sum() / weight.sum()
        if update >= 750:
            mean.append(float(q))
    assert sum(mean) / len(mean) == pytest.approx(expected, abs=0.01)
